"""The guard: a body that moves money runs only on a complete 200 allow without an outcome, at most once
per idempotency key over restarts, and its end is reported.

The order of durable steps ensures this: the key is in the journal before the service is asked, the
journal says that the body has begun before it does, and it says how the body ended before that is reported.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any, get_args

from . import api
from .ending import after, report
from .errors import (
    AlreadyExecuted,
    AlreadyReported,
    APIError,
    ApprovalExpired,
    ApprovalPending,
    BadKey,
    Blocked,
    Denied,
    InDoubt,
    KeyReused,
    RedemptionRequired,
    SpendgateError,
    Unanswered,
)
from .journal import Entry, Journal, State
from .permit import Asked, Intent, Permit, Terms, digest, log
from .send import Steps, local
from .settings import Gate, journal_of
from .types import CheckOutcome, Result

MOST_ESCALATIONS = 10  # under one key; after that a person has to look
OBJECT = re.compile(r" at 0x[0-9a-fA-F]+>|\[object \w+\]")  # the traces of an object in a text
NOTHING = re.compile(r"(.*[\W_])?(None|undefined|null|NaN|nan)", re.DOTALL)  # those of a missing value, as the whole or at the end
LATER = "Do not carry the action out. That may have been corrected since, and the service cannot say now: call again when it answers."


def note(journal: Journal, intent: Intent) -> Steps[Entry]:
    """Returns the journal's entry of the action's key. A key that the journal has already is accepted, even if it names nothing."""
    action = intent.action
    if names_nothing(intent) and not (yield from local(lambda: has(journal, action.key))):
        raise BadKey(action.key, intent.bad_field or "")
    mine = Entry(action.key, digest(action))
    entry = yield from local(lambda: journal.add(mine))
    if not entry.action and (yield from local(lambda: journal.move(mine.key, "asked", action=mine.action))):
        entry = yield from local(lambda: journal.add(mine))
    if entry.action != mine.action:
        raise KeyReused(f"{action.key!r} is the idempotency key of another action")
    return entry


def first_check(gate: Gate, journal: Journal, intent: Intent, entry: Entry) -> Steps[Result]:
    """Makes the check of a key. If the service refuses the request, the next attempt may ask for a corrected action."""
    try:
        return (yield from api.check_once(gate, intent.action, entry.redemption))
    except APIError as error:
        if not error.temporary:  # an entry that another process began meanwhile keeps its action
            yield from after(journal, entry.key, "asked", action="")
        raise


def names_nothing(intent: Intent) -> bool:
    key = intent.action.key
    nothing = NOTHING.fullmatch(key)
    if not key.strip() or intent.bad_field or OBJECT.search(key):
        return True
    return nothing is not None and (intent.bad_field is None or not nothing[1])


def has(journal: Journal, key: str) -> bool:
    return any(journal.move(key, state, state=state) for state in get_args(State))


def ask(gate: Gate, intent: Intent) -> Steps[Asked]:
    """Makes the check. Only enter() decides whether a body runs."""
    journal = gate.journal if intent.action.key.strip() else None
    if journal is None:
        return Asked(intent, (yield from api.check_once(gate, intent.action)))
    entry = yield from note(journal, intent)
    try:
        result = yield from first_check(gate, journal, intent, entry)
    except SpendgateError as error:
        if entry.state == "asked":
            raise
        # The missing answer to this check shows nothing about an earlier one that was, or may have been, carried out.
        raise (ended(entry, LATER) if entry.status else Unanswered(entry.key, entry.check_id, error)) from error
    if result.first and result.allowed:  # a later call then knows that a replay of the check is its own
        yield from after(journal, intent.action.key, "asked", check_id=result.check_id)
    return Asked(intent, result)


def begin(gate: Gate, intent: Intent) -> Steps[Permit]:
    """Returns a permit, or raises an error that says why there is none."""
    return _claimed(gate, intent.action.key, _begin(gate, intent))


def enter(gate: Gate, asked: Asked) -> Steps[Permit]:
    """Returns a permit for an action that was asked about, or raises an error that says why there is none."""
    return _claimed(gate, asked.intent.action.key, _enter(gate, asked))


def _claimed(gate: Gate, key: str, steps: Steps[Permit]) -> Steps[Permit]:
    """Claims the key before the journal is read, so that a repetition sees what a running body has left behind."""
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
    entry = yield from note(journal, intent)
    if entry.state != "asked":
        return (yield from prior(gate, journal, entry, intent.terms))
    result = yield from first_check(gate, journal, intent, entry)
    return (yield from _decide(gate, journal, entry, Asked(intent, result)))


def _enter(gate: Gate, asked: Asked) -> Steps[Permit]:
    if not asked.intent.action.key.strip():
        raise BadKey("", f"{asked.result.check_id} was asked for without one")
    journal = yield from journal_of(gate)
    entry = yield from note(journal, asked.intent)
    if entry.state == "asked" or (entry.state == "doubted" and _is_first(asked.result, entry)):
        if asked.is_old:
            asked = Asked(asked.intent, (yield from first_check(gate, journal, asked.intent, entry)))
        return (yield from _decide(gate, journal, entry, asked))
    yield from _void(gate, asked.result, entry)
    return (yield from prior(gate, journal, entry, asked.intent.terms))


def _is_first(result: Result, entry: Entry) -> bool:
    """Whether this is the answer to the request that made the check of an entry."""
    return result.first and result.check_id == entry.check_id


def _void(gate: Gate, result: Result, entry: Entry) -> Steps[None]:
    """Gives back a needless new check: the service has forgotten the key, but the journal has not. A replay may be somebody else's."""
    if result.first and result.allowed and result.check_id != entry.check_id:
        try:
            yield from api.report_outcome(gate, result.check_id, "voided", note=f"the action is that of {entry.check_id}")
        except SpendgateError as error:
            log.warning("%s is not reported as voided: %s", result.check_id, error)


def _decide(gate: Gate, journal: Journal, entry: Entry, asked: Asked) -> Steps[Permit]:
    """Raises what there is to wait for, or decides about an allow. The journal records first what is learnt: the service forgets."""
    terms, redeem = asked.intent.terms, bool(gate.redeeming)
    for escalations in range(MOST_ESCALATIONS):
        if asked.result.decision != "escalate" or asked.result.outcome is not None:
            break
        if escalations > 0 and not asked.result.replayed and terms.wait <= 0:
            break  # the approval is new, so nobody has decided
        asked = yield from approved(gate, asked, entry.redemption)
    result = asked.result
    known = replace(entry, check_id=result.check_id)
    if result.outcome is not None:
        yield from reported(journal, known, result.outcome)
        raise over(result.check_id, result.outcome)
    if result.decision == "escalate":
        raise ApprovalPending(result)
    if result.decision != "allow":
        raise Blocked(result)
    if result.redemption is not None and not redeem:
        yield from doubted(journal, known)
        raise InDoubt(entry.key, result.check_id, "somebody redeemed the check to carry the action out")
    if result.redeem_required and not (redeem or gate.elsewhere):
        raise RedemptionRequired(result)
    # A replay belongs to a process with another journal, unless this journal knows the check as its own.
    repeated = not redeem and not result.first and (entry.state, entry.check_id) != ("asked", result.check_id)
    if repeated and not terms.repeats():
        yield from doubted(journal, known)
        why = "the service had allowed it before, to a process with another journal, or in an answer that was lost"
        raise InDoubt(entry.key, result.check_id, why)
    return (yield from _take(gate, journal, known, asked, repeated))


def _take(gate: Gate, journal: Journal, entry: Entry, asked: Asked, repeated: bool) -> Steps[Permit]:
    """Redeems a check, if this guard redeems, and records in the journal that its body begins. entry names the check."""
    terms, result, redeem, taken = asked.intent.terms, asked.result, bool(gate.redeeming), False
    if redeem:
        try:
            yield from api.redeem(gate, result.check_id, idempotency_key=entry.redemption, **asked.intent.action.deciding)
        except APIError as error:
            taken = error.code == "check_already_redeemed"
            if (taken and not terms.repeats()) or error.code == "check_released":
                yield from doubted(journal, entry)
            if not taken:
                raise
    if taken and not terms.repeats():
        return (yield from again(gate, journal, replace(entry, state="doubted"), terms, False))
    repeated = repeated or taken
    began = min(time.time(), result.timestamp.timestamp()) if repeated else time.time()
    begun = replace(entry, state="begun", at=began)
    claim = {"state": "begun", "action": entry.action, "check_id": result.check_id, "at": began}
    mine = yield from local(lambda: journal.move(entry.key, "asked", **claim))
    now = begun if mine else (yield from local(lambda: journal.add(entry)))
    if now.state == "doubted" and _is_first(result, now):  # another process of this journal got a replay, and doubted it
        mine = yield from local(lambda: journal.move(entry.key, "doubted", **claim))
        now = begun if mine else (yield from local(lambda: journal.add(entry)))
    if mine and taken:
        return (yield from again(gate, journal, begun, terms, True))
    if mine:
        return Permit(begun, result, redeem, repeated)
    yield from _void(gate, result, now)  # another process has begun, or has learnt more
    return (yield from prior(gate, journal, now, terms))


def approved(gate: Gate, asked: Asked, nonce: str) -> Steps[Asked]:
    """Asks again with the approval, if people approved. The service has the final word."""
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
        return Asked(replace(intent, action=again), used)
    raise {"denied": Denied, "expired": ApprovalExpired}.get(found.status, ApprovalPending)(result)


def prior(gate: Gate, journal: Journal, entry: Entry, terms: Terms) -> Steps[Permit]:
    """Decides about a key whose body has begun, or may have, according to the journal."""
    if entry.state == "ended":
        yield from report(gate, journal, entry)
        entry = yield from local(lambda: journal.add(entry))
    if entry.state not in ("begun", "repeated", "doubted"):
        raise (yield from told(gate, journal, entry))
    repeats = entry.state != "doubted" and terms.repeats(time.time() - entry.at)
    return (yield from again(gate, journal, entry, terms, repeats))


def again(gate: Gate, journal: Journal, entry: Entry, terms: Terms, repeats: bool) -> Steps[Permit]:
    """Raises what the service knows about an action that has begun, or returns a permit to repeat it."""
    try:
        found = yield from recorded(gate, entry.check_id)
    except SpendgateError as error:
        raise Unanswered(entry.key, entry.check_id, error) from error
    if found is not None and found.outcome is not None:
        yield from reported(journal, entry, found.outcome)
        raise over(entry.check_id, found.outcome)
    # This machine's clock may be wrong, or may have been when the body began. A check that the service does not show is old.
    if not repeats or found is None or not terms.repeats(found.age or 0):
        raise InDoubt(entry.key, entry.check_id, "it has begun, and nobody said how it ended")
    if gate.redeeming:
        yield from announce(gate, journal, entry, found)
    elif entry.state == "begun" and not (yield from local(lambda: journal.move(entry.key, "begun", state="repeated"))):
        now = yield from local(lambda: journal.add(entry))
        if now.state not in ("repeated", "ended", "reported"):
            raise InDoubt(entry.key, entry.check_id, "another process has begun it")
        return (yield from prior(gate, journal, now, terms))
    return Permit(entry, None, bool(gate.redeeming), repeated=True)


def announce(gate: Gate, journal: Journal, entry: Entry, found: Result) -> Steps[None]:
    """Records a redeemed check as in doubt before its body is repeated, so that its redeemer gives nothing back."""
    if found.redemption is not None and found.redemption.in_doubt:
        return
    try:
        yield from api.in_doubt(gate, entry.check_id)
    except SpendgateError as error:
        if not isinstance(error, APIError) or not error.definite or error.temporary:
            raise Unanswered(entry.key, entry.check_id, error) from error
        yield from again(gate, journal, entry, Terms(), False)  # it has ended meanwhile, or this key may not repeat it


def recorded(gate: Gate, check_id: str) -> Steps[Result | None]:
    try:
        return (yield from api.get_check(gate, check_id))
    except APIError as error:
        if error.status not in (403, 404) or not error.definite:
            raise
        return None  # it is archived, or this key may not read it


def over(check_id: str, outcome: CheckOutcome, reference: str = "", next_step: str = "") -> AlreadyReported:
    if outcome.status == "executed":
        return AlreadyExecuted(check_id, outcome, reference)
    return AlreadyReported(check_id, outcome, reference, next_step)


def ended(entry: Entry, next_step: str = "") -> AlreadyReported:
    return over(entry.check_id, CheckOutcome(entry.status), entry.reference, next_step)


def told(gate: Gate, journal: Journal, entry: Entry) -> Steps[AlreadyReported]:
    """What became of an action that is over. People may have corrected since a report that nothing was moved."""
    if entry.status == "executed":
        return ended(entry)
    try:
        found = yield from recorded(gate, entry.check_id)
    except SpendgateError:
        found = None
    if found is None:
        return ended(entry, LATER)
    if found.outcome is None:
        return ended(entry)
    yield from reported(journal, entry, found.outcome)
    return over(entry.check_id, found.outcome)


def reported(journal: Journal, entry: Entry, outcome: CheckOutcome) -> Steps[None]:
    told = {"action": entry.action, "check_id": entry.check_id, "status": outcome.status}
    yield from after(journal, entry.key, entry.state, state="reported", **told)


def doubted(journal: Journal, entry: Entry) -> Steps[None]:
    yield from local(lambda: journal.move(entry.key, "asked", state="doubted", action=entry.action, check_id=entry.check_id))


def resume(gate: Gate) -> Steps[list[Entry]]:
    """Reports actions that ended without a report, and returns those in doubt, or executed but on record as not executed.

    Call it when the program starts. A body that has not ended yet is in doubt, too, if it is in another process.
    """
    journal = yield from journal_of(gate)
    doubts = []
    for entry in (yield from local(journal.unfinished)):
        if entry.state == "ended":
            if (yield from report(gate, journal, entry)) == "contrary" and entry.status == "executed":
                doubts.append(entry)
            continue
        if gate.process().runs(entry.key):
            continue
        found = yield from recorded(gate, entry.check_id)
        if found is None or found.outcome is None:
            doubts.append(entry)
        else:
            yield from reported(journal, entry, found.outcome)
    return doubts
