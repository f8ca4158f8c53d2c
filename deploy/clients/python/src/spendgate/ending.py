"""The end of a body that a guard runs: how it is recorded in the journal and reported."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from . import api
from .errors import APIError, InDoubt, KeyReused
from .journal import Entry, Journal, State
from .permit import EndsLater, Permit, Terms, log
from .send import Steps, local
from .settings import Gate, journal_of

#: What the service knows of an end: it; not yet; or the contrary, which somebody reported before.
Told = Literal["known", "later", "contrary"]


def refuse(gate: Gate, permit: Permit, terms: Terms, error: Exception | None = None) -> Steps[None]:
    """Raises an error because the body does not run: its action is not the one that was allowed, or its functions raised error.

    If the action changed, the check is given back. An error changes nothing: the next call goes on.
    """
    if permit.repeated:  # it may have run before
        gate.process().release(permit._key, permit._claim)
        raise InDoubt(permit._key, permit.check_id, "it has begun before, and its action changed since") from error
    if error is None:
        permit.end = {"status": "voided", "note": f"the action changed after {permit.check_id}"}
        yield from end(gate, permit, None, terms)
        raise KeyReused(f"the action of {permit._key!r} changed after it was allowed under {permit.check_id}: it was not carried out")
    try:
        if not terms.provider_key:  # otherwise another process may be repeating it, and the next call repeats it
            yield from after((yield from journal_of(gate)), permit._key, "begun", state="asked", check_id=permit.check_id)
    finally:
        gate.process().release(permit._key, permit._claim)
    raise error


def end(gate: Gate, permit: Permit, error: BaseException | None, terms: Terms) -> Steps[None]:
    """Records how the body ended, and reports it. resume() makes up for a lost report."""
    try:
        yield from _end(gate, permit, error, terms)
    finally:
        gate.process().release(permit._key, permit._claim)


def _end(gate: Gate, permit: Permit, error: BaseException | None, terms: Terms) -> Steps[None]:
    key = permit._key
    journal = yield from journal_of(gate)
    said: dict[str, Any] = dict(permit.end) if error is None else {"status": "failed"}
    meant = error is None or (terms.failed(error) and not permit.moved)
    # The end of a repeated body does not show that nothing was moved the first time.
    if not meant or (permit.repeated and said["status"] == "failed"):
        if not (meant or isinstance(error, Exception)):
            return  # the process is ending: the entry stays begun
        yield from _doubt(gate, permit)
        why = f"its body raised {type(error).__name__}" if error is not None else "its body failed"
        if isinstance(error, EndsLater):
            why = str(error)
        elif permit.repeated:
            why += " when it was repeated"
        raise InDoubt(key, permit.check_id, why) from error
    if said["status"] != "executed" and terms.provider_key:
        yield from _give_back(gate, journal, permit, said, error)
        return
    entry = replace(Entry(key, ""), check_id=permit.check_id, **said)
    written = yield from _write(journal, key, said)
    told = yield from report(gate, journal, entry)
    if told == "contrary":
        why = f"it ended, {entry.status}, and the contrary is on record, which people correct"
        raise InDoubt(key, permit.check_id, why) from error
    if told == "later" and not written:
        raise InDoubt(key, permit.check_id, f"it ended, {entry.status}, which could neither be written down nor reported")


def _write(journal: Journal, key: str, said: dict[str, Any]) -> Steps[bool]:
    """Records in the journal how a body ended, unless it has that already. It returns whether the journal works."""
    try:
        if not (yield from local(lambda: journal.move(key, "begun", state="ended", **said))):
            yield from local(lambda: journal.move(key, "repeated", state="ended", **said))
        return True
    except Exception:
        log.exception("the journal does not take how %r ended", key)
        return False


def _doubt(gate: Gate, permit: Permit) -> Steps[None]:
    """Reports the check as in doubt, which the service would otherwise find out only later."""
    if permit.redeemed and not permit.repeated:  # otherwise the service knows already
        try:
            yield from api.in_doubt(gate, permit.check_id)
        except Exception as refused:
            log.warning("%s is not said to be in doubt: %s", permit.check_id, refused)


def _give_back(gate: Gate, journal: Journal, permit: Permit, said: dict[str, Any], error: BaseException | None) -> Steps[None]:
    """Ends a check whose body moved nothing. If another process may be repeating the body, it raises InDoubt."""
    entry = replace(Entry(permit._key, ""), check_id=permit.check_id, **said)
    problem: Exception | None = None
    try:
        if permit.redeemed:
            yield from api.report_outcome(gate, entry.check_id, said["status"], note=entry.note or None, unless_in_doubt=True)
            yield from after(journal, entry.key, "begun", state="reported", **said)
            return
        mine = yield from local(lambda: journal.move(entry.key, "begun", state="ended", **said))
        if mine and (yield from report(gate, journal, entry)) != "contrary":
            return
    except Exception as refused:
        problem = refused
    why = f"it ended, {entry.status}, and another process may repeat it, or the contrary is on record"
    raise InDoubt(entry.key, entry.check_id, why) from error or problem


def report(gate: Gate, journal: Journal, entry: Entry) -> Steps[Told]:
    """Reports how a body ended, if that is possible now. An executed body that is on record as not executed stays unreported."""
    knows: Told = "known"
    told: dict[str, Any] = {name: getattr(entry, name) or None for name in ("reference", "note")}
    status: Any = entry.status
    moved = Decimal(entry.amount) if entry.amount else None
    less: list[dict[str, Any]] = [{"amount": moved, **told}]  # each attempt leaves out more, in case the service does not accept it
    less += [{"amount": moved}] if any(told.values()) else []
    less += [{}] if moved is not None else []
    for content in less:
        try:
            yield from api.report_outcome(gate, entry.check_id, status, **content)
            break
        except Exception as error:  # any error, such as one of a closed client: the body has ended
            log.warning("%s is not reported as %s: %s", entry.check_id, entry.status, error)
            if isinstance(error, APIError) and error.code == "outcome_already_reported":
                if error.latest and (error.latest.status == "executed") != (status == "executed"):
                    knows = "contrary"
                break
            refused = isinstance(error, APIError) and error.status in (400, 422)
            if not refused and not isinstance(error, (TypeError, ValueError)):
                return "later"
    else:
        return "later"
    if knows == "known" or status != "executed":
        yield from after(journal, entry.key, "ended", state="reported")
    return knows


def after(journal: Journal, key: str, was: State, **changes: Any) -> Steps[None]:
    """Records in the journal what has happened already. If the journal fails now, the caller must not think that the body failed."""
    try:
        yield from local(lambda: journal.move(key, was, **changes))
    except Exception:
        log.exception("the journal does not take what became of %r", key)
