"""The service's answers. Generated from openapi.yaml by `go test ./deploy/clients -run TestGeneratedTypes -write-types`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from .answers import Ending, Judged, Polled, Replayable

__all__ = [
    "ActionType",
    "Decision",
    "Confidence",
    "OutcomeStatus",
    "OutcomeFlag",
    "ApprovalStatus",
    "GrantStatus",
    "BacktestStatus",
    "BacktestState",
    "Redemption",
    "Payment",
    "PaymentApproval",
    "RecordedRedemption",
    "Outcome",
    "Result",
    "RecordedAction",
    "CheckRecord",
    "Simulation",
    "StatsBucket",
    "Stats",
    "Sums",
    "SummedLatency",
    "CurrencySum",
    "AgentCount",
    "CounterpartyCount",
    "RuleCount",
    "DecisionCounts",
    "SimulationSummary",
    "Rule",
    "Conditions",
    "Policy",
    "Draft",
    "DraftDecision",
    "DraftApproval",
    "DraftReport",
    "PolicyVersion",
    "PolicyAuthor",
    "Violation",
    "WaitingDraft",
    "Approval",
    "ApprovalGroup",
    "BudgetRemaining",
    "ApprovalDecision",
    "Event",
    "EventPage",
    "Grant",
    "GrantPerson",
    "FreezeScope",
    "Freeze",
    "FreezeRelease",
    "FreezeReaches",
    "BacktestProgress",
    "BacktestSummary",
    "Backtest",
    "Flip",
    "FlipAction",
    "Verdict",
    "Budget",
    "NewKey",
    "Key",
    "Session",
    "Webhook",
    "NewWebhook",
    "Retried",
    "Delivery",
    "Health",
]

ActionType = Literal["refund", "credit", "discount", "spend"]
Decision = Literal["allow", "block", "escalate"]
Confidence = Literal["high", "medium", "low"]
OutcomeStatus = Literal["executed", "failed", "voided"]
OutcomeFlag = Literal["exceeded", "exceeded_pending", "unapproved", "lapsed", "stopped", "replaced", "superseded", "unredeemed", "paid_twice"]
ApprovalStatus = Literal["pending", "approved", "denied", "expired", "used", "withdrawn"]
GrantStatus = Literal["pending", "open", "revoked", "ended"]
BacktestStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]
BacktestState = Literal["counterfactual", "recorded"]


@dataclass(frozen=True, kw_only=True)
class Redemption(Replayable):
    """The redemption of a check. Its holder may carry out exactly this action, once."""

    check_id: str
    action: RecordedAction
    action_hash: str
    redeemed_at: datetime
    redemption_id: str
    # The caller's payment, else the asker's; absent without one.
    payment: Payment | None = None


@dataclass(frozen=True, kw_only=True)
class Payment:
    """What became of a payment. Everything but payment_key, state and attempt speaks of its current check."""

    payment_key: str
    # free, denied, escalated, waiting, open, redeemed, in_doubt, releasing, executed
    state: str
    attempt: int
    # Whether the caller carries the action out, now.
    proceed: bool
    # The nonce of redeem, or the idempotency_key of a redemption, by which the caller proceeds; else null.
    nonce: str | None = None
    # The idempotency key for the provider; null before the redemption.
    execution_id: str | None = None
    redemption_id: str | None = None
    redeemed_at: datetime | None = None
    outcome: OutcomeStatus | None = None
    reference: str | None = None
    # The approval that the current check asks for, while it is unused.
    approval: PaymentApproval | None = None


@dataclass(frozen=True, kw_only=True)
class PaymentApproval:
    approval_id: str
    status: ApprovalStatus
    expires_at: datetime
    # How many approvals are missing.
    missing: int


@dataclass(frozen=True, kw_only=True)
class RecordedRedemption:
    """The redemption of a check, as recorded."""

    check_id: str
    redemption_id: str
    redeemed_at: datetime
    principal: str
    key_id: str
    # Since when nobody knows whether the action was carried out; else null.
    in_doubt_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome(Replayable):
    """A recorded report."""

    check_id: str
    # The reports of a check count from 1.
    report: int
    status: OutcomeStatus
    # Null unless the status is executed.
    amount: Decimal | None = None
    reference: str | None = None
    note: str | None = None
    # Whether the report gave something back; pending: it waits for a report by a key with outcomes:release.
    release: str
    flags: list[OutcomeFlag]
    principal: str
    key_id: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Result(Judged):
    """The answer to an action."""

    check_id: str
    decision: Decision
    confidence: Confidence
    # Null on allow. A later release may have more codes.
    reason_code: str | None = None
    message: str | None = None
    violated_rule_id: str | None = None
    violated_rule_description: str | None = None
    policy_version: int
    next_step: str | None = None
    latency_ms: int
    timestamp: datetime
    # The approval that an escalation asks for.
    approval_id: str | None = None
    # What became of the check's payment; absent without one.
    payment: Payment | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedAction:
    """The action as it was evaluated: action_type is derived if the request had none, and absent fields are null."""

    agent_id: str
    policy_id: str
    action_type: ActionType
    amount: Decimal
    currency: str
    counterparty: str
    payment_method: str | None = None
    merchant_or_vendor: str | None = None
    reason_text: str | None = None
    idempotency_key: str | None = None
    metadata: dict[str, Any] | None = None
    # The approval that the check was sent with; absent without one.
    approval_id: str | None = None
    # The payment that the check is of; absent of none.
    payment_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class CheckRecord:
    """A check's result, and its action."""

    check_id: str
    decision: Decision
    confidence: Confidence
    # Null on allow. A later release may have more codes.
    reason_code: str | None = None
    message: str | None = None
    violated_rule_id: str | None = None
    violated_rule_description: str | None = None
    policy_version: int
    next_step: str | None = None
    latency_ms: int
    timestamp: datetime
    action: RecordedAction
    # The approval that an escalation asks for, or the one that the check used.
    approval_id: str | None = None
    # The principal of the key that asked; its key_id by default.
    principal: str
    # The outcome; null before the first report.
    outcome: Outcome | None = None
    # The redemption; absent if the check was not redeemed.
    redemption: RecordedRedemption | None = None
    # What became of the check's payment; absent without one.
    payment: Payment | None = None


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The decisions that would be made. They permit nothing."""

    # demo, simulation
    mode: str
    policy_id: str
    policy_version: int
    results: list[Result]
    summary: SimulationSummary


@dataclass(frozen=True, kw_only=True)
class StatsBucket:
    # The start of the bucket, in UTC.
    start: datetime
    allow: int
    block: int
    escalate: int


@dataclass(frozen=True, kw_only=True)
class Stats:
    """How many checks there were in every step of a range, the oldest first."""

    # minute, hour, day
    step: str
    data: list[StatsBucket]
    # The sums of all buckets.
    total: DecisionCounts


@dataclass(frozen=True, kw_only=True)
class Sums:
    # Nothing older was looked at. null: the whole range was.
    since: datetime | None = None
    checks: DecisionCounts
    # In the order of their currencies.
    amounts: list[CurrencySum]
    # The ten of most checks.
    agents: list[AgentCount]
    # The ten of most checks.
    counterparties: list[CounterpartyCount]
    # The ten that blocked or escalated most checks.
    rules: list[RuleCount]
    latency_ms: SummedLatency


@dataclass(frozen=True, kw_only=True)
class SummedLatency:
    """How long the node took, in whole milliseconds."""

    # Half of the checks took this at most.
    p50: int
    # 95 % of them took this at most.
    p95: int
    max: int


@dataclass(frozen=True, kw_only=True)
class CurrencySum:
    currency: str
    allow: Decimal
    block: Decimal
    escalate: Decimal


@dataclass(frozen=True, kw_only=True)
class AgentCount:
    agent_id: str
    checks: int


@dataclass(frozen=True, kw_only=True)
class CounterpartyCount:
    counterparty: str
    checks: int


@dataclass(frozen=True, kw_only=True)
class RuleCount:
    policy_id: str
    rule_id: str
    reason_code: str
    checks: int


@dataclass(frozen=True, kw_only=True)
class DecisionCounts:
    allow: int
    block: int
    escalate: int


@dataclass(frozen=True, kw_only=True)
class SimulationSummary:
    total: int
    allowed: int
    blocked: int
    escalated: int


@dataclass(frozen=True, kw_only=True)
class Rule:
    rule_id: str
    rule_type: str
    description: str | None = None
    when: Conditions | None = None
    parameters: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """When the policy has the rule: all conditions must match (S88), at least one is required, and a condition on an absent field does not match."""

    action_types: list[ActionType] | None = None
    currencies: list[str] | None = None
    # Compared exactly.
    counterparties: list[str] | None = None
    # Compared without regard to case.
    payment_methods: list[str] | None = None
    # Of merchant_or_vendor, compared exactly.
    merchants: list[str] | None = None
    # Of metadata.category, compared without regard to case.
    categories: list[str] | None = None
    # Of metadata.country, as in ISO 3166.
    countries: list[str] | None = None
    # Exclusive, in any currency.
    amount_above: Decimal | None = None
    # Inclusive, above amount_above.
    amount_up_to: Decimal | None = None
    # Values or bounds of members of metadata.
    metadata: dict[str, Any] | None = None
    present: list[str] | None = None
    absent: list[str] | None = None
    # What the rule does if a field is absent and all other conditions match; skip by default. Not of a duplicate_guard.
    on_missing: str | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    policy_id: str
    name: str
    description: str | None = None
    version: int
    rules: list[Rule]
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any] | None = None
    # Absent if the version has none.
    redeem: str | None = None
    # Absent if the version has none.
    redeem_within_minutes: int | None = None
    changes: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A possible next version of a policy."""

    policy_id: str
    # The hash of the draft's row in the record. No two drafts have the same hash.
    draft_hash: str
    # The version that was in force when the draft was put.
    base_version: int
    name: str
    description: str | None = None
    rules: list[Rule]
    metadata: dict[str, Any] | None = None
    # Absent if the version has none.
    redeem: str | None = None
    # Absent if the version has none.
    redeem_within_minutes: int | None = None
    changes: dict[str, Any] | None = None
    created_at: datetime
    # The author, whose API key put the draft; null if the admin key did.
    author: PolicyAuthor | None = None
    note: str | None = None
    # Whether people are missing, nobody is, or somebody rejected the draft. This member and the following ones are present when the version in force has `changes`, except in the answer to PUT.
    status: str | None = None
    # Of a rejected draft, whose approvals do not count.
    rejection: DraftDecision | None = None
    # The version in force.
    policy_version: int | None = None
    # The number of people who have to approve, in all.
    required: int | None = None
    # The number of approvals that are missing for a promotion that drops no budgets.
    missing: int | None = None
    # The groups of which people are asked; absent if anybody may decide.
    from_: list[ApprovalGroup] = field(default_factory=list)
    approvals: list[DraftApproval] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class DraftDecision:
    principal: str
    # The person's name, as the provider gave it then; absent for a key.
    name: str | None = None
    # The person's e-mail address, as the provider gave it then; absent for a key.
    email: str | None = None
    # The key, or the session_id of a person who had signed in.
    key_id: str
    note: str | None = None
    at: datetime
    # The version that was in force at that time.
    policy_version: int


@dataclass(frozen=True, kw_only=True)
class DraftApproval:
    principal: str
    # The person's name, as the provider gave it then; absent for a key.
    name: str | None = None
    # The person's e-mail address, as the provider gave it then; absent for a key.
    email: str | None = None
    # The key, or the session_id of a person who had signed in.
    key_id: str
    note: str | None = None
    at: datetime
    # The version that was in force at that time.
    policy_version: int
    # Whether the approval counts for a promotion now: that version is in force, the key is active and may approve, and its principal is neither the author's nor counted already.
    counts: bool
    # The groups of the key at that time.
    groups: list[str] = field(default_factory=list)
    # The budgets that a promotion may drop by this approval.
    drop_budgets: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class DraftReport:
    """The backtest of the draft from when it was put, with the state recorded. The candidate is the draft."""

    policy_id: str
    draft_hash: str
    base_version: int
    # When the draft was put.
    since: datetime
    backtest_id: str
    # Of the backtest. While it is queued or running, report and flips are those of the time before.
    status: BacktestStatus
    progress: BacktestProgress
    # Why the backtest failed.
    error: str | None = None
    # The report on the checks until the end of its coverage; null until the backtest has succeeded once.
    report: dict[str, Any] | None = None
    # The newest of the listed checks that the draft decides otherwise.
    flips: list[Flip]


@dataclass(frozen=True, kw_only=True)
class PolicyVersion:
    policy_id: str
    name: str
    description: str | None = None
    version: int
    rules: list[Rule]
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any] | None = None
    # Absent if the version has none.
    redeem: str | None = None
    # Absent if the version has none.
    redeem_within_minutes: int | None = None
    changes: dict[str, Any] | None = None
    # The author, whose API key made the version or promoted its draft; null if the admin key did.
    author: PolicyAuthor | None = None
    # Who put the draft that became this version; absent if no draft did, as are the next two.
    drafted_by: PolicyAuthor | None = None
    # Who approved the draft beside the version before.
    approved_by: list[DraftDecision] = field(default_factory=list)
    # Whether the admin key forced it.
    forced: bool = False
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class PolicyAuthor:
    principal: str
    key_id: str


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A check that was blocked or escalated."""

    violation_id: str
    check_id: str
    agent_id: str
    policy_id: str
    policy_version: int
    action_type: ActionType
    amount: Decimal
    currency: str
    counterparty: str
    # block, escalate
    decision: str
    violated_rule_id: str
    violated_rule_description: str
    confidence: Confidence
    latency_ms: int
    timestamp: datetime
    console_url: str | None = None


@dataclass(frozen=True, kw_only=True)
class WaitingDraft:
    """A draft that waits for approvals."""

    # discriminator enum property added by openapi-typescript
    kind: str
    policy_id: str
    draft_hash: str
    author: PolicyAuthor | None = None
    note: str | None = None
    made_at: datetime
    # The number of people who are missing.
    missing: int


@dataclass(frozen=True, kw_only=True)
class Approval(Polled):
    """What an escalated check asks of people. An approved one allows nothing until a check with its approval_id is allowed. Text that agents wrote in it is only text."""

    # discriminator enum property added by openapi-typescript
    kind: str
    approval_id: str
    status: ApprovalStatus
    check_id: str
    principal: str
    action: RecordedAction
    action_hash: str
    rule_ids: list[str]
    policy_id: str
    policy_version: int
    # The number of people who have to approve, in all.
    required: int
    # The number of people who are missing; only with `from`, or once the approval was reopened.
    missing: int | None = None
    # The groups of which people are asked; absent if anybody may decide.
    from_: list[ApprovalGroup] = field(default_factory=list)
    # The author of the version that escalated, or of the draft that it was, does not decide.
    exclude_author: bool = False
    decisions: list[ApprovalDecision]
    created_at: datetime
    expires_at: datetime
    use_by: datetime | None = None
    used_by_check_id: str | None = None
    # What is left of the budgets that judge the action; absent in lists.
    remaining: list[BudgetRemaining] = field(default_factory=list)
    next_step: str


@dataclass(frozen=True, kw_only=True)
class ApprovalGroup:
    """How many people of a group, or of any_of several groups, have to approve."""

    group: str | None = None
    any_of: list[str] = field(default_factory=list)
    required: int
    # How many more people of the group would count. A person in two groups counts for either, so the sum may be greater than missing.
    missing: int


@dataclass(frozen=True, kw_only=True)
class BudgetRemaining:
    """What a budget has left for an action. Null means no limit."""

    rule_id: str
    remaining: Decimal | None = None
    remaining_count: int | None = None
    # What would be left if all other approvals that are approved and unused were used.
    remaining_after_approved: Decimal | None = None
    remaining_count_after_approved: int | None = None


@dataclass(frozen=True, kw_only=True)
class ApprovalDecision:
    principal: str
    # The person's name, as the provider gave it then; absent for a key.
    name: str | None = None
    # The person's e-mail address, as the provider gave it then; absent for a key.
    email: str | None = None
    # The key, or the session_id of a person who had signed in.
    key_id: str
    # approve, deny
    decision: str
    note: str | None = None
    at: datetime
    # The groups of the key at the time of the decision.
    groups: list[str] = field(default_factory=list)
    # The decision counts no more, because of what became of its key since (S92). Absent otherwise.
    void: bool = False


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened. Its sequence is the after of the next request. The members of data depend on the type."""

    id: str
    type: str
    timestamp: datetime
    sequence: int
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """A page of the feed. It may be short, or empty, while has_more."""

    data: list[Event]
    # The value of after for the next request.
    next_after: int
    # Whether there may be events after next_after already.
    has_more: bool


@dataclass(frozen=True, kw_only=True)
class Grant:
    # discriminator enum property added by openapi-typescript
    kind: str
    grant_id: str
    policy_id: str
    rule_id: str
    per: dict[str, str]
    add_amount: Decimal | None = None
    add_count: int | None = None
    # Of add_amount.
    currency: str | None = None
    until: datetime
    note: str
    status: GrantStatus
    created_at: datetime
    created_by: GrantPerson
    # How many people besides the granter must approve it.
    required: int
    # How many of them are missing.
    missing: int
    approvals: list[GrantPerson]
    revoked: GrantPerson | None = None


@dataclass(frozen=True, kw_only=True)
class GrantPerson:
    # Null for the admin key, like key_id.
    principal: str | None = None
    key_id: str | None = None
    # Of a person who had signed in.
    name: str | None = None
    note: str | None = None
    at: datetime


@dataclass(frozen=True, kw_only=True)
class FreezeScope:
    """What is frozen: exactly one member. Agents and counterparties are compared exactly, principals as names."""

    all: bool = False
    policy_id: str | None = None
    agent_id: str | None = None
    principal: str | None = None
    counterparty: str | None = None


@dataclass(frozen=True, kw_only=True)
class Freeze:
    freeze_id: str
    scope: FreezeScope
    reason: str
    until: datetime | None = None
    created_at: datetime
    # Null for the admin key, and after a restore.
    created_by: PolicyAuthor | None = None
    # active, released, over
    status: str
    released_at: datetime | None = None
    releases: list[FreezeRelease]
    # How many people must release it.
    required: int
    # How many of them are missing.
    missing: int
    # What it reaches of the last 24 hours; only of a new freeze, and only if it was counted in time.
    reaches: FreezeReaches | None = None


@dataclass(frozen=True, kw_only=True)
class FreezeRelease:
    # Null for the admin key, like key_id.
    principal: str | None = None
    key_id: str | None = None
    note: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class FreezeReaches:
    checks: int
    principals: int


@dataclass(frozen=True, kw_only=True)
class BacktestProgress:
    # The number of the policy's checks that were replayed.
    checks: int
    # How much of the period was replayed. The time before it, which fills windows, is not counted.
    fraction: Decimal
    # The timestamp of the last check.
    reached: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class BacktestSummary(Ending):
    """A backtest in a list, without its rules and its report."""

    backtest_id: str
    policy_id: str
    # The candidate's version; null if the candidate is rules.
    version: int | None = None
    from_: datetime
    to: datetime
    state: BacktestState
    status: BacktestStatus
    progress: BacktestProgress
    # Why the backtest failed.
    error: str | None = None
    key_id: str
    principal: str
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Backtest(Ending):
    """A replay of recorded checks by other rules, or by another version."""

    backtest_id: str
    policy_id: str
    # The candidate's version; null if the candidate is rules.
    version: int | None = None
    from_: datetime
    to: datetime
    state: BacktestState
    status: BacktestStatus
    progress: BacktestProgress
    # Why the backtest failed.
    error: str | None = None
    key_id: str
    principal: str
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    # The candidate's rules; null if the candidate is a version.
    rules: list[Rule] | None = None
    # The report; null until the backtest has succeeded. The same records and the same candidate make the same bytes.
    report: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Flip:
    """A check that the candidate decides otherwise."""

    check_id: str
    timestamp: datetime
    recorded: Verdict
    candidate: Verdict
    # Null for keys without checks:read.
    action: FlipAction | None = None


@dataclass(frozen=True, kw_only=True)
class FlipAction:
    agent_id: str
    action_type: ActionType
    amount: Decimal
    currency: str
    counterparty: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    decision: Decision
    rule_id: str | None = None
    reason_code: str | None = None
    # Null if the candidate is rules.
    policy_version: int | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A counter of a budget rule, in its window. Null means no limit."""

    policy_id: str
    rule_id: str
    per: dict[str, str]
    currency: str | None = None
    # As the policy says it.
    limit: Decimal | None = None
    used: Decimal
    # Of the limit with what is granted; never below zero.
    remaining: Decimal | None = None
    count: int
    max_count: int | None = None
    # Of max_count with what is granted; never below zero.
    remaining_count: int | None = None
    # hour, day, week, month, year, lifetime,
    window: str | None = None
    # Only with a calendar window.
    time_zone: str | None = None
    # Only with a rolling window.
    rolling_minutes: int | None = None
    window_start: datetime
    # The end of the window; with a rolling window, when its oldest bucket leaves; null if the window is lifetime.
    resets_at: datetime | None = None
    counting_since: datetime
    # What open grants add to the limit, now: also where `at` names a time.
    granted: Decimal | None = None
    # What open grants add to max_count.
    granted_count: int | None = None
    as_of: datetime


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """A new API key. This is the only time that it is shown."""

    key_id: str
    name: str
    api_key: str = field(repr=False)
    rate_limit_rpm: int
    created_at: datetime
    role: str | None = None
    scopes: list[str] | None = None
    policy_ids: list[str] | None = None
    agent_ids: list[str] | None = None
    principal: str | None = None
    owner: str | None = None
    groups: list[str] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Key:
    """The record of an API key."""

    # The key; in GET /v1/keys/self with a session, the session.
    key_id: str
    name: str
    # The person's e-mail address, as the provider gave it at the sign-in; absent for a key.
    email: str | None = None
    rate_limit_rpm: int
    active: bool
    created_at: datetime
    # When a check or a new policy last came with the key; null if never. Reads and simulations do not count. The time may be a minute behind.
    last_used_at: datetime | None = None
    role: str | None = None
    scopes: list[str] | None = None
    policy_ids: list[str] | None = None
    agent_ids: list[str] | None = None
    principal: str | None = None
    owner: str | None = None
    groups: list[str] | None = None
    expires_at: datetime | None = None
    # The checks that the key was allowed and nobody redeemed, which are stopped; only in the answer to a change that deactivates the key.
    stopped: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Session:
    """A person who signed in, with what their groups permit."""

    session_id: str
    # The person's name, as the provider gave it at the sign-in; may be empty.
    name: str
    email: str | None = None
    created_at: datetime
    last_used_at: datetime
    # When the session ends if it is not used.
    ends_at: datetime
    role: str | None = None
    scopes: list[str] | None = None
    policy_ids: list[str] | None = None
    agent_ids: list[str] | None = None
    # The provider's label, a colon, and the subject (sub).
    principal: str
    # The e-mail address; without one, the principal.
    owner: str | None = None
    groups: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Webhook:
    webhook_id: str
    url: str
    event_types: list[str]
    # disabled: by a PATCH, or because the endpoint answered 410.
    status: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class NewWebhook:
    """A webhook that was made or rotated. This is the only time that its secret is shown."""

    webhook_id: str
    url: str
    event_types: list[str]
    # disabled: by a PATCH, or because the endpoint answered 410.
    status: str
    created_at: datetime
    # 32 random bytes in base64.
    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Retried:
    webhook_id: str
    # The number of events that are tried again.
    retried: int


@dataclass(frozen=True, kw_only=True)
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
    # The answer's status; null without an answer.
    status_code: int | None = None
    # What went wrong; null if the event was delivered.
    error: str | None = None
    # When the next attempt was due after this one; null if none was to follow.
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Health:
    status: str
    version: str
    timestamp: datetime
