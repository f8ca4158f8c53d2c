"""The service's operations, each written once for both clients."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Generic, Literal, TypeVar, Union

from . import types as t
from .errors import APIError, NoDecision, SpendgateError
from .send import Pause, Reply, Request, Settings, Steps, get, path, send
from .wire import decode, misunderstood, money, read

T = TypeVar("T")
Amount = Union[Decimal, int, str]
When = Union[str, date, None]  # RFC 3339, a date, or a datetime that has a zone

MOST_APPROVAL_WAIT = 30


@dataclass(frozen=True)
class Action:
    """A planned movement of money, as it is sent."""

    members: Mapping[str, Any]

    def but(self, **members: Any) -> Action:
        return Action({**self.members, **members})


def action(
    agent_id: str | None, policy_id: str | None, amount: Amount, currency: str, counterparty: str, **members: Any
) -> Action:
    if not agent_id or not policy_id:
        raise TypeError("an action has an agent_id and a policy_id, its own or the client's")
    return Action({
        "agent_id": agent_id, "policy_id": policy_id, "amount": money(amount), "currency": currency, "counterparty": counterparty,
        **{name: member for name, member in members.items() if member is not None},
    })


def fetch(settings: Settings, request: Request, kind: type[T]) -> Steps[T]:
    reply = yield from send(settings, request)
    return read(kind, decode(reply.body))


# Checks.


def check(settings: Settings, planned: Action) -> Steps[t.Answer]:
    """Asks whether an action may be carried out. One without a key gets one for the repetitions of this call."""
    if "payment_key" not in planned.members and not str(planned.members.get("idempotency_key") or "").strip():
        planned = planned.but(idempotency_key="py-" + secrets.token_hex(16))  # the service treats white space as no key, too
    key = str(planned.members.get("payment_key") or planned.members.get("idempotency_key"))
    try:
        reply = yield from send(settings, Request("POST", "/v1/checks", dict(planned.members)))
        if "payment_key" not in planned.members and not reply.header("x-request-id"):
            raise misunderstood("a proxy drops headers, which tell a replay: X-Request-ID is missing")
        return t.Answer.of(replace(result(decode(reply.body), reply), checked=True))
    except APIError as error:
        if error.definite and not error.maybe_done:
            raise
        raise NoDecision(key, error) from error
    except SpendgateError as error:
        raise NoDecision(key, error) from error


def result(value: Any, reply: Reply | None = None) -> t.Result:
    """Returns a decision only for a response that certainly has one."""
    read_result = read(t.Result, value)
    if not read_result.check_id.startswith("chk_") or read_result.policy_version < 1:
        raise misunderstood("it is no check result")
    if reply is None:
        return read_result
    became, taken = outcome_of(reply), redemption_of(reply)
    over = became or taken
    if over and read_result.payment is None:  # a payment is asked for again under its key
        read_result = replace(read_result, next_step=over.next_step)
    required = bool(reply.header("redeem"))
    return replace(read_result, replayed=reply.replayed, redeem_required=required, outcome=became, redemption=taken, body=reply.body)


def outcome_of(reply: Reply) -> t.CheckOutcome | None:
    """Reads the header Outcome. An unknown value counts as an outcome, too."""
    values = reply.header("outcome")
    if not values:
        return None
    status, separator, parameter = values[0].strip(" ").partition(";")
    pending = parameter.lstrip(" ") == "release=pending"
    if len(values) > 1 or status not in ("executed", "failed", "voided") or (separator and not pending):
        return t.CheckOutcome("unknown")
    return t.CheckOutcome(status, pending)


def redemption_of(reply: Reply) -> t.CheckRedemption | None:
    """Reads the header Redeemed. An unknown value counts as a redemption, too."""
    values = reply.header("redeemed")
    if not values:
        return None
    redemption_id, separator, parameter = values[0].strip(" ").partition(";")
    in_doubt = parameter.lstrip(" ") == "in_doubt"
    if len(values) > 1 or not redemption_id.startswith("rdm_") or (separator and not in_doubt):
        return t.CheckRedemption("unknown")
    return t.CheckRedemption(redemption_id, in_doubt)


def get_check(settings: Settings, check_id: str) -> Steps[t.Result]:
    """Reads an earlier check, and its outcome. The result is a record, not a permission."""
    reply = yield from send(settings, get(path("checks", check_id)))
    found = result(decode(reply.body), reply)
    if found.check_id != check_id:
        raise misunderstood("it is another check")
    return replace(found, age=(reply.date - found.timestamp).total_seconds()) if reply.date and found.timestamp.tzinfo else found


def report_outcome(
    settings: Settings,
    check_id: str,
    status: t.OutcomeStatus,
    *,
    amount: Amount | None = None,
    reference: str | None = None,
    note: str | None = None,
    supersedes: int | None = None,
    redemption_id: str | None = None,
    unless_in_doubt: bool = False,
    patience: float | None = None,
) -> Steps[t.Outcome]:
    """Reports the outcome of an allowed check. Repeating the same report gives the same outcome.

    amount is what was really moved, by default the check's. supersedes is the number of the report that this one corrects,
    and redemption_id the redemption of a payment whose holder reports. unless_in_doubt refuses the report of a check that is in doubt. patience is for
    how many seconds the request is repeated, instead of a number of attempts.
    """
    moved = None if amount is None else money(amount)
    given: dict[str, Any] = {"status": status, "amount": moved, "reference": reference, "note": note, "supersedes": supersedes}
    given.update(redemption_id=redemption_id, unless_in_doubt=unless_in_doubt or None)
    content = {name: member for name, member in given.items() if member is not None}
    until = None if patience is None else settings._clock() + patience
    reply = yield from send(settings, Request("POST", path("checks", check_id, "outcome"), content, status=201, again=200, until=until))
    outcome = read(t.Outcome, decode(reply.body))
    if outcome.check_id != check_id:
        raise misunderstood("it is the outcome of another check")
    return replace(outcome, replayed=reply.replayed)


def get_outcome(settings: Settings, check_id: str) -> Steps[t.Outcome]:
    """Reads the last report about a check."""
    return fetch(settings, get(path("checks", check_id, "outcome")), t.Outcome)


def redeem(
    settings: Settings,
    check_id: str,
    /,
    *,
    action_hash: str | None = None,
    idempotency_key: str | None = None,
    **fields: Any,
) -> Steps[t.Redemption]:
    """Redeems an allowed check before its action is carried out: by the action's fields, or by its hash.

    Repetitions have one Idempotency-Key, a new one unless given.
    """
    content: dict[str, Any] = dict(fields) if action_hash is None else {"action_hash": action_hash}
    if "amount" in content:
        content["amount"] = money(content["amount"])
    key = idempotency_key or "py-" + secrets.token_hex(16)
    reply = yield from send(
        settings, Request("POST", path("checks", check_id, "redeem"), content, headers={"Idempotency-Key": key})
    )
    redemption = read(t.Redemption, decode(reply.body))
    if redemption.check_id != check_id:
        raise misunderstood("it is the redemption of another check")
    return replace(redemption, replayed=reply.replayed)


def in_doubt(settings: Settings, check_id: str, *, redemption_id: str | None = None) -> Steps[None]:
    """Reports that nobody knows whether the action of a redeemed check was carried out."""
    content = {} if redemption_id is None else {"redemption_id": redemption_id}
    yield from send(settings, Request("POST", path("checks", check_id, "in-doubt"), content, status=201, again=200))


def simulate(settings: Settings, policy_id: str, actions: Sequence[Mapping[str, Any]]) -> Steps[t.Simulation]:
    """Evaluates up to 100 actions by a policy and records nothing: its results permit nothing."""
    planned: list[dict[str, Any]] = [{"policy_id": policy_id, "agent_id": None, **a} for a in actions]
    sent = [dict(action(**members).members) for members in planned]
    simulation = yield from fetch(settings, Request("POST", "/v1/simulate", {"policy_id": policy_id, "actions": sent}), t.Simulation)
    if len(simulation.results) != len(sent):
        raise misunderstood(f"{len(simulation.results)} results of {len(sent)} actions")
    return simulation


# Approvals.


def approval(settings: Settings, approval_id: str, *, wait: int = 0) -> Steps[t.Approval]:
    """Reads an approval. While it is pending, the service holds the answer for up to wait seconds, 30 at most."""
    reply = yield from send(settings, get(path("approvals", approval_id), wait=max(0, min(int(wait), MOST_APPROVAL_WAIT))))
    return replace(read(t.Approval, decode(reply.body)), retry_after=reply.retry_after)


def wait_for_approval(settings: Settings, approval_id: str, *, timeout: float | None = None) -> Steps[t.Approval]:
    """Asks until the approval is no longer pending, at most for timeout seconds, and returns it."""
    ends = None if timeout is None else time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        hold = MOST_APPROVAL_WAIT if ends is None else max(0, min(MOST_APPROVAL_WAIT, int(ends - asked)))
        found = yield from approval(settings, approval_id, wait=hold)
        # If the service held the answer, that time counts as a part of the pause.
        pause = max(found.retry_after, 1) - (time.monotonic() - asked)
        if found.status != "pending" or (ends is not None and time.monotonic() + pause >= ends):
            return found
        yield Pause(max(0, pause))


def approve(settings: Settings, approval_id: str, action_hash: str, *, note: str | None = None) -> Steps[t.Approval]:
    """Approves exactly the action that has the hash. The approval stays pending if more people have to approve."""
    return _decide(settings, approval_id, "approve", action_hash, note)


def deny(settings: Settings, approval_id: str, action_hash: str, *, note: str | None = None) -> Steps[t.Approval]:
    """Denies the approval, also if it was approved and is not used yet."""
    return _decide(settings, approval_id, "deny", action_hash, note)


def _decide(settings: Settings, approval_id: str, decision: str, action_hash: str, note: str | None) -> Steps[t.Approval]:
    content = {"action_hash": action_hash, **({} if note is None else {"note": note})}
    return fetch(settings, Request("POST", path("approvals", approval_id, decision), content), t.Approval)


# Lists.


@dataclass(frozen=True)
class Query(Generic[T]):
    """A list that is read page by page."""

    request: Callable[[str | None], Request]
    read: Callable[[Any], T]

    def page(self, settings: Settings, cursor: str | None) -> Steps[t.Page[T]]:
        reply = yield from send(settings, self.request(cursor))
        content = decode(reply.body)
        try:
            found = content["pagination"]
            page = t.Page(
                [self.read(element) for element in content["data"]],
                found["next_cursor"], found["has_more"], found.get("total_count"),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise misunderstood("it is no page") from error
        if page.has_more and page.next_cursor in (None, "", cursor):
            raise misunderstood("there are more pages and no way to them")
        return page


def query(kind: type[T], where: str, *, admin: bool = False, **parameters: object) -> Query[T]:
    given = {name: when(p) if isinstance(p, date) else p for name, p in parameters.items()}
    return Query(lambda cursor: get(where, {**given, "cursor": cursor}, admin=admin), partial(read, kind))


def when(moment: date) -> str:
    if isinstance(moment, datetime) and moment.tzinfo is None:
        raise ValueError("a time without a zone is none")
    return moment.isoformat()


def checks(
    settings: Settings,
    *,
    agent_id: str | None = None,
    policy_id: str | None = None,
    decision: t.Decision | None = None,
    outcome: Literal["none", "executed", "failed", "voided", "in_doubt"] | None = None,
    counterparty: str | None = None,
    action_type: t.ActionType | None = None,
    reason_code: str | None = None,
    rule_id: str | None = None,
    idempotency_key: str | None = None,
    approval_id: str | None = None,
    payment_key: str | None = None,
    principal: str | None = None,
    amount_from: str | None = None,
    amount_to: str | None = None,
    from_: When = None,
    to: When = None,
    before: When = None,
    limit: int | None = None,
) -> Query[t.CheckRecord]:
    """Checks, newest first."""
    given = {name: value for name, value in locals().items() if name != "settings"}
    return query(t.CheckRecord, "/v1/checks", **given)


def violations(
    settings: Settings,
    *,
    agent_id: str | None = None,
    policy_id: str | None = None,
    action_type: t.ActionType | None = None,
    decision: Literal["block", "escalate"] | None = None,
    amount_from: str | None = None,
    amount_to: str | None = None,
    from_: When = None,
    to: When = None,
    limit: int | None = None,
) -> Query[t.Violation]:
    """Checks that were blocked or escalated, newest first."""
    given = {name: value for name, value in locals().items() if name != "settings"}
    return query(t.Violation, "/v1/violations", **given)


def approvals(
    settings: Settings,
    *,
    status: t.ApprovalStatus | None = None,
    policy_id: str | None = None,
    agent_id: str | None = None,
    counterparty: str | None = None,
    amount_from: str | None = None,
    amount_to: str | None = None,
    from_: When = None,
    to: When = None,
    decided_by: str | None = None,
    limit: int | None = None,
) -> Query[t.Approval]:
    """Approvals, newest first."""
    given = {name: value for name, value in locals().items() if name != "settings"}
    return query(t.Approval, "/v1/approvals", **given)


def waiting(
    settings: Settings, *, policy_id: str | None = None, agent_id: str | None = None, limit: int | None = None
) -> Query[t.Approval | t.WaitingDraft | t.Grant]:
    """What an approval with this key brings forward: approvals and grants, soonest to expire first, then drafts of policies."""
    given = {"waiting_for": "me", "policy_id": policy_id, "agent_id": agent_id, "limit": limit}

    def item(element: Any) -> t.Approval | t.WaitingDraft | t.Grant:
        return read({"draft": t.WaitingDraft, "grant": t.Grant}.get(element["kind"], t.Approval), element)

    return Query(lambda cursor: get("/v1/approvals", {**given, "cursor": cursor}), item)


def budgets(
    settings: Settings,
    *,
    policy_id: str,
    rule_id: str | None = None,
    agent_id: str | None = None,
    counterparty: str | None = None,
    at: When = None,
    limit: int | None = None,
) -> Query[t.Budget]:
    """The counters of a policy's budgets."""
    given = {name: value for name, value in locals().items() if name != "settings"}
    return query(t.Budget, "/v1/budgets", **given)


def events_page(
    settings: Settings, *, after: int = 0, type: str | None = None, from_: When = None, limit: int | None = None
) -> Steps[t.EventPage]:
    """A page of events of greater sequences than after. Without after the feed begins with the first, or the first from from_."""
    given = {"after": after or None, "type": type, "from": when(from_) if isinstance(from_, date) else from_, "limit": limit}
    page = yield from fetch(settings, get("/v1/events", given), t.EventPage)
    if page.next_after < after or (page.has_more and page.next_after == after):
        raise misunderstood("there are more events and no way to them")
    return page
