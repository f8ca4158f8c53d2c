"""The guard: a body that moves money runs only on a complete 200 allow without an outcome, at most once
per idempotency key over restarts, and its end is reported.

The order of what is durable makes it so: the key is in the journal before the service is asked, the
journal says that the body has begun before it does, and how it ended before that is reported.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from . import api
from .admin import self_key
from .errors import (
    AlreadyExecuted,
    AlreadyReported,
    APIError,
    ApprovalExpired,
    ApprovalPending,
    Blocked,
    Denied,
    InDoubt,
    KeyReused,
    RedemptionRequired,
    SpendgateError,
)
from .journal import Entry, Journal, MemoryJournal, State
from .process import Claim, Process
from .send import Settings, Steps, local
from .types import CheckOutcome, Result
from .wire import encode, money, ordered

log = logging.getLogger("spendgate")

MOST_ESCALATIONS = 10  # under one key; more wait for a person to look


class Gate(Settings):
    """Settings of a client that guards."""

    journal: Journal | None
    memory: MemoryJournal  # instead, where the service remembers redemptions
    redeeming: bool | None  # None: as the role of the key says
    elsewhere: bool  # what the bodies call redeems
    process: Callable[[], Process]  # that this is


class EndsLater(TypeError):
    """A body returned before it ran to its end."""


@dataclass(frozen=True)
class Terms:
    """What the guard is told of a body."""

    provider_key: bool = False  # the provider takes the check_id as its idempotency key
    provider_key_hours: float = 24  # for which it is sure to know one
    failed_on: tuple[type[BaseException], ...] = ()  # errors that mean that nothing was moved
    wait: float = 0  # seconds for people to decide

    def __post_init__(self) -> None:
        if not isinstance(self.failed_on, tuple) or not all(isinstance(kind, type) for kind in self.failed_on):
            raise TypeError("failed_on is a tuple of the types of errors")

    def repeats(self, age: float = 24 * 3600) -> bool:
        """Whether a body is run again that began so many seconds ago, at most: unless told while the service knew its key, 24 hours."""
        return self.provider_key and age <= self.provider_key_hours * 3600


@dataclass(frozen=True)
class Intent:
    """An action, and the body's terms."""

    action: api.Action
    terms: Terms


@dataclass(frozen=True)
class Asked:
    """An intent with the service's first answer."""

    intent: Intent
    result: Result


class Permit:
    """That the body may run, now, under check_id. The body may say what it did."""

    def __init__(self, entry: Entry, result: Result | None, redeemed: bool, repeated: bool) -> None:
        self.check_id, self.result, self.redeemed, self._key = entry.check_id, result, redeemed, entry.key
        self.repeated = repeated  # it may have run before, under the same check_id
        self.end: dict[str, str] = {"status": "executed"}
        self._claim: Claim | None = None

    def executed(self, *, reference: str | int | None = None, amount: api.Amount | None = None) -> None:
        """Says what the report names; amount only if another was moved than the check's.

        A reference of more than 256 characters, or with some that cannot be sent, is left out.
        """
        moved = "" if amount is None else str(money(amount))
        self.end = {"status": "executed", "reference": reportable("reference", reference, 256), "amount": moved}

    def failed(self, note: str | None = None) -> None:
        """Says that nothing was moved. Of a body that is repeated that is in doubt all the same."""
        self.end = {"status": "failed", "note": reportable("note", note, 4096)}


def reportable(name: str, value: object, most: int) -> str:
    """A text that the service and the journal take: the money was moved, whatever it is."""
    text = str(value) if isinstance(value, (str, int)) else ""
    fits = len(text) <= most and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)
    if value is not None and (not fits or not isinstance(value, (str, int))):
        log.warning("a %s that cannot be reported is left out: %.300r", name, value)
    return text if fits else ""


def redeems(gate: Gate) -> Steps[bool]:
    if gate.redeeming is None:
        own = yield from self_key(gate)
        gate.redeeming = own.role == "gateway" or "checks:redeem" in (own.scopes or [])
    return gate.redeeming


def journal_of(gate: Gate) -> Steps[Journal]:
    redeem = yield from redeems(gate)
    if gate.journal is not None:
        return gate.journal
    if not redeem:
        raise TypeError("a guard whose key does not redeem needs a journal: Spendgate(..., journal='spendgate.db')")
    return gate.memory


def note(journal: Journal, action: api.Action) -> Steps[Entry]:
    """Returns the journal's entry of the action's key."""
    if not action.key.strip():
        raise TypeError("what is guarded has an idempotency key that belongs to it, such as the number of an order")
    deciding = dict(action.deciding)
    deciding["amount"] = str(money(deciding["amount"]))
    deciding["currency"] = str(deciding["currency"]).upper()
    digest = hashlib.sha256(encode(ordered(deciding))).hexdigest()
    entry = yield from local(lambda: journal.add(Entry(action.key, digest)))
    if entry.action != digest:
        raise KeyReused(f"{action.key!r} is the idempotency key of another action")
    return entry


def ask(gate: Gate, intent: Intent) -> Steps[Asked]:
    """Makes the check. Only enter() decides whether a body runs."""
    journal = gate.journal if intent.action.key.strip() else None
    nonce = ""
    if journal is not None:
        nonce = (yield from note(journal, intent.action)).redemption
    result = yield from api.check_once(gate, intent.action, nonce)
    if journal is not None and result.first and result.allowed:  # so that a later replay of it is known
        yield from after(journal, intent.action.key, "asked", check_id=result.check_id)
    return Asked(intent, result)


def begin(gate: Gate, intent: Intent) -> Steps[Permit]:
    """Returns a permit, or raises why there is none."""
    return _claimed(gate, intent.action.key, _begin(gate, intent))


def enter(gate: Gate, asked: Asked) -> Steps[Permit]:
    """Returns a permit for what was asked, or raises why there is none."""
    return _claimed(gate, asked.intent.action.key, _enter(gate, asked))


def _claimed(gate: Gate, key: str, steps: Steps[Permit]) -> Steps[Permit]:
    """Claims the key before the journal is read: what is repeated is repeated after what runs, by what that left behind."""
    claim = gate.process().claim(key)
    try:
        permit = yield from steps
    except BaseException:
        gate.process().release(key, claim)
        raise
    permit._claim = claim
    return permit


def _begin(gate: Gate, intent: Intent) -> Steps[Permit]:
    journal = yield from journal_of(gate)
    entry = yield from note(journal, intent.action)
    if entry.state != "asked":
        return (yield from prior(gate, journal, entry, intent.terms))
    result = yield from api.check_once(gate, intent.action, entry.redemption)
    return (yield from _decide(gate, journal, entry, Asked(intent, result)))


def _enter(gate: Gate, asked: Asked) -> Steps[Permit]:
    journal = yield from journal_of(gate)
    entry = yield from note(journal, asked.intent.action)
    if entry.state == "asked" or (entry.state == "doubted" and asked.result.first):
        return (yield from _decide(gate, journal, entry, asked))
    if asked.result.first and asked.result.allowed and asked.result.check_id != entry.check_id:
        # The service has forgotten the key, the journal has not: the new check is for nothing. A replay may be another's.
        try:
            yield from api.report_outcome(gate, asked.result.check_id, "voided", note=f"the action is that of {entry.check_id}")
        except SpendgateError as error:
            log.warning("%s is not reported as voided: %s", asked.result.check_id, error)
    return (yield from prior(gate, journal, entry, asked.intent.terms))


def _decide(gate: Gate, journal: Journal, entry: Entry, asked: Asked) -> Steps[Permit]:
    terms, redeem = asked.intent.terms, bool(gate.redeeming)
    for escalations in range(MOST_ESCALATIONS):
        if asked.result.decision != "escalate" or asked.result.outcome is not None:
            break
        if escalations > 0 and not asked.result.replayed and terms.wait <= 0:
            break  # it is new, and so undecided
        asked = yield from approved(gate, asked, entry.redemption)
    result = asked.result
    if result.outcome is not None:
        raise over(result.check_id, result.outcome)
    if result.decision == "escalate":
        raise ApprovalPending(result)
    if result.decision != "allow":
        raise Blocked(result)
    if result.redemption is not None and not redeem:
        raise InDoubt(entry.key, result.check_id, "somebody redeemed the check to carry the action out")
    if result.redeem_required and not (redeem or gate.elsewhere):
        raise RedemptionRequired(result)
    # A replay is somebody's with another journal, unless this one knows that it is its own.
    repeated = not redeem and not asked.result.first and (entry.state, entry.check_id) != ("asked", result.check_id)
    if repeated and not terms.repeats():
        yield from local(lambda: journal.move(entry.key, "asked", state="doubted", check_id=result.check_id))
        why = "the service had allowed it before, to a process with another journal, or in an answer that was lost"
        raise InDoubt(entry.key, result.check_id, why)
    if redeem:
        try:
            yield from api.redeem(gate, result.check_id, idempotency_key=entry.redemption, **asked.intent.action.deciding)
        except APIError as error:
            if error.code != "check_already_redeemed":
                raise
            yield from doubtful(gate, entry.key, result.check_id, terms, terms.repeats())
            repeated = True
    began = min(time.time(), result.timestamp.timestamp()) if repeated else time.time()
    begun = replace(entry, state="begun", check_id=result.check_id, at=began)
    claim = {"state": "begun", "check_id": result.check_id, "at": began}
    mine = yield from local(lambda: journal.move(entry.key, "asked", **claim))
    if not mine and asked.result.first:  # others of this journal, who had a replay, doubted it
        mine = yield from local(lambda: journal.move(entry.key, "doubted", **claim))
    if mine:
        return Permit(begun, result, redeem, repeated)
    now = yield from local(lambda: journal.add(entry))  # another process has begun
    return (yield from prior(gate, journal, now, terms))


def approved(gate: Gate, asked: Asked, nonce: str) -> Steps[Asked]:
    """Asks again with the approval, if people approved. What became of it is only the service's to say."""
    result, intent = asked.result, asked.intent
    if result.approval_id is None:
        raise ApprovalPending(result)
    if intent.terms.wait > 0:
        found = yield from api.wait_for_approval(gate, result.approval_id, timeout=intent.terms.wait)
    else:
        found = yield from api.approval(gate, result.approval_id)
    if found.status in ("approved", "used"):
        again = intent.action.but(approval_id=result.approval_id)
        used = yield from api.check_once(gate, again, nonce)
        return Asked(Intent(again, intent.terms), used)
    raise {"denied": Denied, "expired": ApprovalExpired}.get(found.status, ApprovalPending)(result)


def prior(gate: Gate, journal: Journal, entry: Entry, terms: Terms) -> Steps[Permit]:
    """Decides about a key of which the journal says that its body has begun, or may have."""
    if entry.state == "ended":
        yield from report(gate, journal, entry)
    if entry.state not in ("begun", "doubted"):
        raise over(entry.check_id, CheckOutcome(entry.status), entry.reference)
    try:
        repeats = entry.state == "begun" and terms.repeats(time.time() - entry.at)
        yield from doubtful(gate, entry.key, entry.check_id, terms, repeats)
    except AlreadyReported as known:
        yield from reported(journal, entry, known.outcome)
        raise
    return Permit(entry, None, bool(gate.redeeming), repeated=True)


def doubtful(gate: Gate, key: str, check_id: str, terms: Terms, repeats: bool) -> Steps[None]:
    """Raises what the service knows of an action that has begun. It returns when the body is repeated."""
    found = yield from recorded(gate, check_id)
    if found is not None and found.outcome is not None:
        raise over(check_id, found.outcome)
    # This machine's clock may have been wrong when the body began, or is now. What the service does not show is old.
    if not repeats or found is None or not terms.repeats(found.age or 0):
        raise InDoubt(key, check_id, "it has begun, and nobody said how it ended")


def recorded(gate: Gate, check_id: str) -> Steps[Result | None]:
    try:
        return (yield from api.get_check(gate, check_id))
    except APIError as error:
        if error.status not in (403, 404) or not error.definite:
            raise
        return None  # it is archived, or not for this key to read


def over(check_id: str, outcome: CheckOutcome, reference: str = "") -> AlreadyReported:
    return (AlreadyExecuted if outcome.status == "executed" else AlreadyReported)(check_id, outcome, reference)


def end(gate: Gate, permit: Permit, error: BaseException | None, terms: Terms) -> Steps[None]:
    """Records how the body ended, and reports it. A report that is lost is made by resume()."""
    try:
        yield from _end(gate, permit, error, terms)
    finally:
        gate.process().release(permit._key, permit._claim)


def _end(gate: Gate, permit: Permit, error: BaseException | None, terms: Terms) -> Steps[None]:
    key = permit._key
    journal = yield from journal_of(gate)
    ended: dict[str, Any] = dict(permit.end) if error is None else {"status": "failed"}
    meant = error is None or isinstance(error, terms.failed_on)
    # What a repeated body says of itself does not say that nothing was moved the first time.
    if not meant or (permit.repeated and ended["status"] == "failed"):
        if not (meant or isinstance(error, Exception)):
            return  # the process ends: it stays begun
        if permit.redeemed:
            try:
                yield from api.in_doubt(gate, permit.check_id)
            except SpendgateError as refused:
                log.warning("%s is not said to be in doubt: %s", permit.check_id, refused)
        why = f"its body raised {type(error).__name__}" if error is not None else "its body failed"
        if isinstance(error, EndsLater):
            why = str(error)
        elif permit.repeated:
            why += " when it was repeated"
        raise InDoubt(key, permit.check_id, why) from error
    entry = replace(Entry(key, ""), check_id=permit.check_id, **ended)
    yield from after(journal, key, "begun", state="ended", **ended)
    yield from report(gate, journal, entry)


def report(gate: Gate, journal: Journal, entry: Entry) -> Steps[None]:
    """Reports how a body ended, if that is possible now."""
    told: dict[str, Any] = {name: getattr(entry, name) or None for name in ("reference", "note")}
    status: Any = entry.status
    moved = Decimal(entry.amount) if entry.amount else None
    less: list[dict[str, Any]] = [{"amount": moved, **told}]  # what the service does not take is left out
    less += [{"amount": moved}] if any(told.values()) else []
    less += [{}] if moved is not None else []
    for content in less:
        try:
            yield from api.report_outcome(gate, entry.check_id, status, **content)
            break
        except (SpendgateError, TypeError, ValueError) as error:
            log.warning("%s is not reported as %s: %s", entry.check_id, entry.status, error)
            if isinstance(error, APIError) and error.code == "outcome_already_reported":
                break
            if isinstance(error, SpendgateError) and not (isinstance(error, APIError) and error.status in (400, 422)):
                return
    else:
        return
    yield from after(journal, entry.key, "ended", state="reported")


def after(journal: Journal, key: str, was: State, **changes: Any) -> Steps[None]:
    """Writes what is so already. A journal that fails now is no reason to tell the caller that the body did."""
    try:
        yield from local(lambda: journal.move(key, was, **changes))
    except Exception:
        log.exception("the journal does not take what became of %r", key)


def reported(journal: Journal, entry: Entry, outcome: CheckOutcome) -> Steps[None]:
    yield from after(journal, entry.key, entry.state, state="reported", status=outcome.status)


def resume(gate: Gate) -> Steps[list[Entry]]:
    """Reports what ended and was not reported, and returns what is in doubt.

    Call it when the program starts. A body that has not ended yet is in doubt, too, if it is in another process.
    """
    journal = yield from journal_of(gate)
    doubts = []
    for entry in (yield from local(journal.unfinished)):
        if entry.state == "ended":
            yield from report(gate, journal, entry)
            continue
        if gate.process().runs(entry.key):
            continue
        found = yield from recorded(gate, entry.check_id)
        if found is None or found.outcome is None:
            doubts.append(entry)
        else:
            yield from reported(journal, entry, found.outcome)
    return doubts
