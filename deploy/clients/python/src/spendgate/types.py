"""The service's answers, as dataclasses whose members have the names of the API.

They are dataclasses and not models of a library: the answers are few and flat, and a client
of a service that guards money should need nothing but an HTTP library.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Literal, NoReturn, TypeVar

ActionType = Literal["refund", "credit", "discount", "spend"]
Decision = Literal["allow", "block", "escalate"]
OutcomeStatus = Literal["executed", "failed", "voided"]
ApprovalStatus = Literal["pending", "approved", "denied", "expired", "used"]

T = TypeVar("T")
A = TypeVar("A", bound="Answer")

NO_CONDITION = (
    "a check is no condition: it only asks, and says the same to a program that was restarted. What moves money runs at most once "
    "under `with gate.check(...):` (`async with` of AsyncSpendgate), or in a function under @gate.guard(...). Whoever only wants to "
    "look reads `allowed` or `decision` of the answer"
)


def _apart(default: Any, *, shown: bool = True) -> Any:
    """A member that is not from the body of an answer."""
    return field(default=default, repr=shown, metadata={"apart": True})


@dataclass(frozen=True)
class CheckOutcome:
    """What became of the check of a response: the header Outcome."""

    status: str  # executed, failed, voided, or unknown if the header cannot be understood
    release_pending: bool = False  # nothing was given back yet

    @property
    def next_step(self) -> str:
        if self.status == "executed":
            return (
                "Do not carry the action out: that was done under this check. "
                "If another one is meant, it is a new check, with another idempotency_key."
            )
        if self.status == "unknown":
            return "Do not carry the action out: something was reported about this check that this program does not understand."
        text = (
            "Do not carry the action out under this check. "
            "A new attempt is a new check, with another idempotency_key: act only on its answer."
        )
        return text + (" It may be blocked until somebody who may release has reported, too." if self.release_pending else "")


@dataclass(frozen=True)
class CheckRedemption:
    """The redemption of the check of a response: the header Redeemed."""

    redemption_id: str  # unknown if the header cannot be understood
    in_doubt: bool = False  # it is unknown whether the action was carried out

    @property
    def next_step(self) -> str:
        if self.in_doubt:
            return (
                "Do not carry the action out: it is in doubt whether it was carried out under this check. "
                "People find out, and report the outcome."
            )
        return (
            "Do not carry the action out: somebody redeemed this check to do so, "
            "and reports the result as the check's outcome."
        )


@dataclass(frozen=True)
class Result:
    """The answer to an action."""

    check_id: str
    decision: Decision
    policy_version: int
    timestamp: datetime
    confidence: str = ""  # high, medium or low
    reason_code: str | None = None
    message: str | None = None
    violated_rule_id: str | None = None
    violated_rule_description: str | None = None
    next_step: str | None = None  # considers the outcome, unlike next_step in body
    latency_ms: int = 0
    approval_id: str | None = None

    replayed: bool = _apart(False)  # the service repeated an earlier answer
    first: bool = _apart(False)  # in an answer to check(): this request made the check, even if its answer was lost before
    redeem_required: bool = _apart(False)  # the check must be redeemed before the action is carried out
    outcome: CheckOutcome | None = _apart(None)
    redemption: CheckRedemption | None = _apart(None)  # not None if somebody redeemed the check to carry the action out
    body: bytes = _apart(b"", shown=False)  # the answer as it came
    checked: bool = _apart(False, shown=False)  # whether it is the answer to check()
    age: float | None = _apart(None, shown=False)  # seconds since the check, by the service's clock, if the answer gives the time

    @property
    def allowed(self) -> bool:
        """Whether the action may be carried out, once.

        It is false for a simulated result, for one that was read later, and when the check was redeemed or an
        outcome was reported. For a replayed result it is true even if the action was carried out and nobody
        reported it: a guard looks into its journal.
        """
        return self.checked and self.decision == "allow" and self.outcome is None and self.redemption is None

    def __bool__(self) -> bool:
        return self.allowed


class Answer(Result):
    """The answer of check(). Its copies are results."""

    @classmethod
    def of(cls: type[A], result: Result) -> A:
        return cls(**{f.name: getattr(result, f.name) for f in fields(Result)})

    def __bool__(self) -> NoReturn:
        """Refuses `if gate.check(...): pay()`, which would pay again each time the program is restarted."""
        raise TypeError(NO_CONDITION)

    def __reduce__(self) -> tuple[Any, ...]:
        return Result, tuple(getattr(self, f.name) for f in fields(Result))


@dataclass(frozen=True)
class RecordedAction:
    """An action as it was evaluated. What agents wrote is only text."""

    agent_id: str
    policy_id: str
    action_type: str
    amount: Decimal
    currency: str
    counterparty: str
    payment_method: str | None = None
    merchant_or_vendor: str | None = None
    reason_text: str | None = None
    idempotency_key: str | None = None
    metadata: dict[str, Any] | None = None
    approval_id: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A recorded report."""

    check_id: str
    status: str  # executed, failed or voided
    amount: Decimal | None
    reference: str | None
    note: str | None
    release: str  # none, pending or done
    flags: list[str]
    principal: str
    key_id: str
    at: datetime
    report: int | None = None  # its number among the reports of the check
    replayed: bool = _apart(False)  # the same report was made before


@dataclass(frozen=True)
class Redemption:
    """The redemption of a check: its holder may carry out exactly this action, once."""

    check_id: str
    action: RecordedAction
    action_hash: str
    redeemed_at: datetime
    redemption_id: str
    replayed: bool = _apart(False)


@dataclass(frozen=True)
class CheckRecord:
    """A check in a list: a record, not a permission."""

    check_id: str
    decision: Decision
    confidence: str
    reason_code: str | None
    message: str | None
    violated_rule_id: str | None
    violated_rule_description: str | None
    policy_version: int
    next_step: str | None
    latency_ms: int
    timestamp: datetime
    action: RecordedAction
    principal: str
    outcome: Outcome | None  # the last report
    approval_id: str | None = None


@dataclass(frozen=True)
class SimulationSummary:
    total: int
    allowed: int
    blocked: int
    escalated: int


@dataclass(frozen=True)
class Simulation:
    """The decisions that would be made. They permit nothing."""

    mode: str  # demo or simulation
    policy_id: str
    policy_version: int
    results: list[Result]  # one per action, in their order
    summary: SimulationSummary


@dataclass(frozen=True)
class ApprovalDecision:
    principal: str
    key_id: str
    decision: str  # approve or deny
    note: str | None
    at: datetime
    groups: list[str] = field(default_factory=list)  # of the key, as recorded then
    name: str | None = None  # of a person who had signed in, as recorded then
    email: str | None = None


@dataclass(frozen=True)
class ApprovalGroup:
    """How many people of a group have to approve, and how many more would count."""

    group: str
    required: int
    missing: int


@dataclass(frozen=True)
class BudgetRemaining:
    """What a budget has left for an action. None means no limit."""

    rule_id: str
    remaining: Decimal | None = None
    remaining_count: int | None = None
    remaining_after_approved: Decimal | None = None
    remaining_count_after_approved: int | None = None


@dataclass(frozen=True)
class Approval:
    """What an escalated check asks of people. An approved one allows nothing until a check with its id is allowed."""

    approval_id: str
    status: ApprovalStatus
    check_id: str
    principal: str
    action: RecordedAction
    action_hash: str
    rule_ids: list[str]
    policy_id: str
    policy_version: int
    required: int
    decisions: list[ApprovalDecision]
    created_at: datetime
    expires_at: datetime
    use_by: datetime | None = None
    used_by_check_id: str | None = None
    remaining: list[BudgetRemaining] = field(default_factory=list)
    next_step: str = ""
    missing: int | None = None  # how many approvals are missing, if groups are asked
    from_: list[ApprovalGroup] = field(default_factory=list)
    exclude_author: bool = False
    retry_after: int = _apart(0)


@dataclass(frozen=True)
class Violation:
    violation_id: str
    check_id: str
    agent_id: str
    policy_id: str
    policy_version: int
    action_type: str
    amount: Decimal
    currency: str
    counterparty: str
    decision: Decision
    violated_rule_id: str
    violated_rule_description: str
    confidence: str
    latency_ms: int
    timestamp: datetime


@dataclass(frozen=True)
class Budget:
    """A counter of a budget rule, in its window. None means no limit."""

    policy_id: str
    rule_id: str
    per: dict[str, str]
    used: Decimal
    count: int
    window_start: datetime
    counting_since: datetime
    as_of: datetime
    currency: str | None = None
    limit: Decimal | None = None
    remaining: Decimal | None = None
    max_count: int | None = None
    remaining_count: int | None = None
    window: str | None = None
    rolling_minutes: int | None = None
    time_zone: str | None = None
    resets_at: datetime | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened. Its sequence is the after of the next request."""

    id: str
    type: str
    timestamp: datetime
    sequence: int
    data: dict[str, Any]


@dataclass(frozen=True)
class EventPage:
    """A page of the feed. It may be short, or empty, while there are more."""

    data: list[Event]
    next_after: int
    has_more: bool


@dataclass(frozen=True)
class Rule:
    rule_id: str
    rule_type: str
    parameters: dict[str, Any]
    description: str | None = None


@dataclass(frozen=True)
class PolicyAuthor:
    principal: str
    key_id: str


@dataclass(frozen=True)
class Policy:
    policy_id: str
    name: str
    version: int
    rules: list[Rule]
    created_at: datetime  # of the policy's first version
    updated_at: datetime  # of this version
    description: str | None = None
    metadata: dict[str, Any] | None = None
    redeem: str | None = None  # "required": only redeemed checks can be reported as executed
    redeem_within_minutes: int | None = None  # how old a check may be when it is redeemed
    changes: dict[str, Any] | None = None  # the approvals that the next version needs: required and from
    author: PolicyAuthor | None = None  # in lists of versions
    drafted_by: PolicyAuthor | None = None  # likewise: the author of the draft that became this version
    note: str | None = None  # likewise


BacktestStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]
BacktestState = Literal["counterfactual", "recorded"]


@dataclass(frozen=True)
class BacktestProgress:
    checks: int
    fraction: Decimal  # of the period, 0 to 1
    reached: datetime | None


@dataclass(frozen=True)
class Backtest:
    """A replay of recorded checks by other rules, or by another version."""

    backtest_id: str
    policy_id: str
    version: int | None  # None for a backtest of rules
    from_: datetime
    to: datetime
    state: BacktestState
    status: BacktestStatus
    progress: BacktestProgress
    error: str | None
    key_id: str
    principal: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    rules: list[Rule] | None = None  # not in lists
    report: dict[str, Any] | None = None  # as the service's document describes it; None until it has succeeded, and in lists

    @property
    def ended(self) -> bool:
        return self.status not in ("queued", "running")


@dataclass(frozen=True)
class Verdict:
    decision: Decision
    rule_id: str | None
    reason_code: str | None
    policy_version: int | None


@dataclass(frozen=True)
class FlipAction:
    agent_id: str
    action_type: ActionType
    amount: Decimal
    currency: str
    counterparty: str


@dataclass(frozen=True)
class Flip:
    """A check that the candidate decides otherwise."""

    check_id: str
    timestamp: datetime
    recorded: Verdict
    candidate: Verdict
    action: FlipAction | None  # None without checks:read


@dataclass(frozen=True)
class DraftApproval:
    principal: str
    key_id: str
    at: datetime
    policy_version: int  # in force then
    counts: bool  # for a promotion now
    note: str | None = None
    groups: list[str] = field(default_factory=list)
    drop_budgets: list[str] = field(default_factory=list)
    name: str | None = None  # of a person who had signed in, as recorded then
    email: str | None = None


@dataclass(frozen=True)
class Draft:
    """A possible next version of a policy."""

    policy_id: str
    draft_hash: str  # no two drafts have the same
    base_version: int
    name: str
    rules: list[Rule]
    created_at: datetime
    description: str | None = None
    metadata: dict[str, Any] | None = None
    redeem: str | None = None
    redeem_within_minutes: int | None = None
    changes: dict[str, Any] | None = None
    author: PolicyAuthor | None = None
    note: str | None = None
    # These are present if the version in force requires approvals, except in the answer to put_draft.
    policy_version: int | None = None  # in force
    required: int | None = None  # people, in all
    missing: int | None = None
    from_: list[ApprovalGroup] = field(default_factory=list)
    approvals: list[DraftApproval] = field(default_factory=list)


@dataclass(frozen=True)
class DraftReport:
    """The backtest of a draft: a comparison of its decisions with those recorded since it was put."""

    policy_id: str
    draft_hash: str
    base_version: int
    since: datetime
    backtest_id: str
    status: BacktestStatus  # while queued or running, report and flips are those of the time before
    progress: BacktestProgress
    error: str | None
    report: dict[str, Any] | None  # as in a backtest; None until it has succeeded once
    flips: list[Flip]  # the newest 100


@dataclass(frozen=True)
class DecisionCounts:
    allow: int
    block: int
    escalate: int


@dataclass(frozen=True)
class Bucket(DecisionCounts):
    start: datetime


@dataclass(frozen=True)
class Stats:
    """How many checks there were in every step of a range, the oldest first."""

    step: Literal["minute", "hour", "day"]
    data: list[Bucket]
    total: DecisionCounts


@dataclass(frozen=True)
class Key:
    """The record of an API key."""

    key_id: str
    name: str
    rate_limit_rpm: int
    active: bool
    created_at: datetime
    last_used_at: datetime | None = None
    role: str | None = None
    scopes: list[str] | None = None
    policy_ids: list[str] | None = None
    agent_ids: list[str] | None = None
    principal: str | None = None
    owner: str | None = None
    groups: list[str] | None = None
    expires_at: datetime | None = None
    email: str | None = None  # of a person who signed in; None for a key


@dataclass(frozen=True)
class NewKey:
    """A new API key: this is the only time that it is shown."""

    key_id: str
    name: str
    rate_limit_rpm: int
    created_at: datetime
    api_key: str = field(repr=False)
    role: str | None = None
    scopes: list[str] | None = None
    policy_ids: list[str] | None = None
    agent_ids: list[str] | None = None
    principal: str | None = None
    owner: str | None = None
    groups: list[str] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Session:
    """A person who signed in, with the rights that their groups give."""

    session_id: str
    name: str
    created_at: datetime
    last_used_at: datetime
    ends_at: datetime
    principal: str
    email: str | None = None
    role: str | None = None
    scopes: list[str] | None = None
    policy_ids: list[str] | None = None
    agent_ids: list[str] | None = None
    owner: str | None = None
    groups: list[str] | None = None


@dataclass(frozen=True)
class Webhook:
    webhook_id: str
    url: str
    event_types: list[str]
    status: str  # active or disabled
    created_at: datetime


@dataclass(frozen=True)
class NewWebhook(Webhook):
    """A webhook that was made or rotated: this is the only time that its secret is shown."""

    secret: str = field(repr=False)


@dataclass(frozen=True)
class Retried:
    webhook_id: str
    retried: int  # events that are tried again


@dataclass(frozen=True)
class Delivery:
    """An attempt to deliver an event."""

    delivery_id: str
    webhook_id: str
    event_id: str
    event_type: str
    sequence: int
    attempt: int
    timestamp: datetime
    duration_ms: int
    delivered: bool
    status_code: int | None  # None: no answer
    error: str | None
    next_attempt_at: datetime | None


@dataclass(frozen=True)
class Health:
    status: str
    version: str
    timestamp: datetime


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list. total_count is None in a list that has none."""

    data: list[T]
    next_cursor: str | None
    has_more: bool
    total_count: int | None
