"""How a body ended, as it is reported. What cannot be reported now is repeated in the background."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import api
from .errors import APIError, InDoubt
from .permit import Permit, log
from .send import Settings, Steps
from .types import OutcomeStatus
from .wire import misunderstood

PATIENCE = 15  # seconds for which the caller waits: a node that is restarted is back
MOST_CORRECTIONS = 10  # of others while this one is made


class Contrary(Exception):
    """The report is refused for good."""


def reported(
    gate: Settings, permit: Permit, status: OutcomeStatus, error: Exception | None = None, *, note: str | None = None
) -> Steps[None]:
    """Reports how the body ended. It raises InDoubt if the contrary is on record, or another has taken the payment over."""
    said = dict(permit._moved or {}) if status == "executed" else {"note": note}
    deliver = partial(report, gate, permit, status, said)
    try:
        yield from deliver()
    except Contrary as refused:
        why = f"it ended, {status}, which the service does not take: {refused}"
        raise InDoubt(permit.payment_key, permit.check_id, why) from error or refused
    except (Exception, GeneratorExit) as problem:  # any, such as that of a closed client: the body has ended
        log.warning("%s is not reported as %s: %r. That is repeated in the background", permit.check_id, status, problem)
        gate.process().later(deliver, f"{permit.check_id}, {status}")
        if isinstance(problem, GeneratorExit):
            raise


def report(gate: Settings, permit: Permit, status: OutcomeStatus, said: dict[str, Any]) -> Steps[None]:
    """Makes the report, with less if the service does not accept all of it. What was executed corrects any other report."""
    supersedes = None
    for _ in range(MOST_CORRECTIONS):
        try:
            yield from api.report_outcome(
                gate, permit.check_id, status, supersedes=supersedes, redemption_id=permit.redemption_id, patience=PATIENCE, **said
            )
            return
        except APIError as error:
            if not error.definite or error.temporary:
                raise
            latest = error.latest if error.code == "outcome_already_reported" else None
            if latest is not None and latest.check_id != permit.check_id:
                raise misunderstood("it is the report of another check") from error
            if latest is not None and (latest.status == "executed") == (status == "executed"):
                return
            if latest is not None and status == "executed":
                supersedes = latest.report
            elif error.status in (400, 422) and said:
                said = {"amount": said["amount"]} if len(said) > 1 and "amount" in said else {}
            else:
                raise Contrary(str(error)) from error
    raise Contrary("others correct it again and again")


def doubt(gate: Settings, permit: Permit) -> Steps[None]:
    """Says that the payment is in doubt, which the service would otherwise find out later."""
    try:
        yield from api.in_doubt(gate, permit.check_id, redemption_id=permit.redemption_id)
    except Exception as refused:
        log.warning("%s is not said to be in doubt: %s", permit.check_id, refused)
