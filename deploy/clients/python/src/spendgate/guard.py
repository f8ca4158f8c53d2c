"""The guard: a body that moves money runs only on a complete 200 that says `proceed: true` for its payment and its nonce.

The service knows what became of a payment, so the guard keeps nothing. It asks and redeems in one request, under a nonce
that is new for each call, runs the body at most once, and reports.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from . import api
from .ending import doubt, reported
from .errors import (
    ActionChanged,
    APIError,
    ApprovalExpired,
    ApprovalPending,
    BadKey,
    Blocked,
    Denied,
    Escalated,
    InDoubt,
    NotCarriedOut,
    SpendgateError,
    Unanswered,
)
from .guarded import unfinished
from .permit import Intent, Permit, Terms, log
from .send import Pause, Request, Run, Settings, Steps, send
from .types import Payment, Result
from .wire import decode

PATIENCE = 60  # seconds for which a request without an answer is repeated
FRESH = 600  # seconds after the first request in which a body may begin: people find out what became of it after 15 minutes
MOST_HOLD = 30  # seconds for which the service holds an answer
RELEASE = 5  # seconds in which a release ends
OBJECT = re.compile(r" at 0x[0-9a-fA-F]+>|\[object \w+\]")  # the traces of an object in a text
NOTHING = re.compile(r"(.*[\W_])?(None|undefined|null|NaN|nan)", re.DOTALL)  # those of a missing value, as the whole or at the end


@dataclass(frozen=True)
class Carried:
    """How a payment ended. value is what the body returned, or the recorded reference of a payment that was executed before."""

    value: Any
    reference: str | None = None
    before: bool = False
    problem: Exception | None = None  # the body's error, which means that nothing was moved
    failed: bool = False

    def unwrap(self) -> Any:
        if self.problem is not None:
            raise self.problem
        return self.value


def carry(gate: Settings, intent: Intent, body: Callable[[Permit], Any]) -> Steps[Carried]:
    """Carries a payment out, unless that was done before."""
    if names_nothing(intent):
        raise BadKey(intent.key, intent.bad_field or "")
    result, payment, since = yield from ask(gate, intent)
    if not payment.proceed:
        reference = recorded(intent, result, payment)
        return Carried(reference, reference, before=True)
    permit = Permit(intent.key, result, payment.execution_id or "", payment.redemption_id or "")
    try:
        changed = intent.changed
    except Exception:
        yield from forgo(gate, permit, intent.terms, "the arguments make no action any more")
        raise
    if changed:
        yield from forgo(gate, permit, intent.terms, "the action changed after it was allowed")
        raise ActionChanged(f"the action of {intent.key!r} changed after it was allowed under {permit.check_id}: it was not carried out")
    if gate._clock() - since > FRESH:
        raise InDoubt(intent.key, permit.check_id, "its answer took too long, so this call ran nothing, and others may have")
    return (yield from run(gate, permit, intent.terms, body))


def ask(gate: Settings, intent: Intent) -> Steps[tuple[Result, Payment, float]]:
    """Asks and redeems, always with one nonce. It returns the last answer, and a time at which nothing was redeemed yet."""
    content = {**intent.action.members, "redeem": secrets.token_hex(16), **intent.terms.members}
    since = asked = gate._clock()
    waits, released = asked + intent.terms.wait, 0.0
    while True:
        hold = max(0, min(MOST_HOLD, int(waits - asked)))
        until = asked + hold + PATIENCE
        request = Request("POST", "/v1/checks", content, wait=hold, until=until, accept=lambda reply: api.result(decode(reply.body)))
        result, payment = yield from answer(gate, intent, request)
        now = gate._clock()
        released = released or now + RELEASE
        if payment.state == "waiting" and result.decision != "block" and waits - now >= 1:
            yield Pause(max(0, asked + 1 - now))
        elif payment.state == "releasing" and now < released:
            yield Pause(0.5)
        else:
            return result, payment, since
        since, asked = asked, gate._clock()


def answer(gate: Settings, intent: Intent, request: Request) -> Steps[tuple[Result, Payment]]:
    """Sends the request until it has an answer, of which nothing but the body counts."""
    try:
        reply = yield from send(gate, request)
        result = api.result(decode(reply.body))
    except APIError as error:
        if not error.definite or error.temporary:
            raise Unanswered(intent.key, error) from error
        if error.code == "forbidden":
            error.message += ": a guard needs a key with checks:redeem, such as one of role gateway"
        raise
    except SpendgateError as error:
        raise Unanswered(intent.key, error) from error
    payment = result.payment
    if payment is None or canonical(payment.payment_key) != canonical(intent.key):
        raise Unanswered(intent.key, "the answer is of no payment, or of another")
    permits = result.decision == "allow" and payment.state == "redeemed" and payment.outcome is None
    names = payment.execution_id and payment.redemption_id and payment.nonce == request.content["redeem"]
    if payment.proceed and not (permits and names):
        raise Unanswered(intent.key, "the answer is that to another request")
    return result, payment


def canonical(key: str) -> str:
    return unicodedata.normalize("NFC", key).strip()


def recorded(intent: Intent, result: Result, payment: Payment) -> str | None:
    """What there is to say of a payment that this call does not carry out."""
    if payment.state == "executed":
        return payment.reference
    if payment.state in ("redeemed", "in_doubt", "releasing"):
        began = f"another call began it (redeemed_at: {payment.redeemed_at}) and may still be carrying it out"
        whys = {"redeemed": began, "in_doubt": "nobody knows how it ended", "releasing": "it is being given back"}
        raise InDoubt(intent.key, result.check_id, whys[payment.state], in_progress=payment.state == "redeemed")
    if result.decision == "block" and payment.state in ("free", "waiting"):  # waiting: an approval of it is left unused
        raise Blocked(result)
    kinds: dict[str, type[NotCarriedOut]] = {"waiting": ApprovalPending, "denied": Denied, "escalated": Escalated}
    if payment.state == "free" and payment.approval is not None and payment.approval.status == "expired":
        kinds["free"] = ApprovalExpired
    if payment.state not in kinds:
        raise Unanswered(intent.key, f"the payment is {payment.state}, and the service did not redeem it")
    raise kinds[payment.state](result)


def run(gate: Settings, permit: Permit, terms: Terms, body: Callable[[Permit], Any]) -> Steps[Carried]:
    """Runs the body, and reports how it ended."""
    try:
        value = yield Run(lambda: body(permit))
    except Exception as error:
        if not terms.raised(error) or permit._moved is not None:
            yield from in_doubt(gate, permit, f"its body raised {type(error).__name__}", error)
        yield from reported(gate, permit, "failed", error)
        return Carried(None, problem=error, failed=True)
    if later := unfinished(value):
        yield from in_doubt(gate, permit, str(later), later)
    failed: bool | None = None
    try:
        failed = terms.returned(value)
    except Exception as error:
        yield from in_doubt(gate, permit, "failed_if does not understand its result", error)
    if failed is None:
        yield from in_doubt(gate, permit, "its result looks like an error, and failed_if does not say what that means")
    if failed:
        yield from reported(gate, permit, "failed")
        return Carried(value, failed=True)
    if permit._moved is None and terms.reference is not None:
        try:
            permit.executed(reference=terms.reference(value))
        except Exception:  # the money was moved in any case
            log.exception("what %s returned has no reference", permit.check_id)
    yield from reported(gate, permit, "executed")
    return Carried(value, (permit._moved or {}).get("reference"))


def in_doubt(gate: Settings, permit: Permit, why: str, error: Exception | None = None) -> Steps[NoReturn]:
    yield from doubt(gate, permit)
    raise InDoubt(permit.payment_key, permit.check_id, why) from error


def forgo(gate: Settings, permit: Permit, terms: Terms, why: str) -> Steps[None]:
    """Gives back what this call redeemed and does not carry out. What it may have taken over is in doubt: another may have."""
    if terms.take_over:
        yield from in_doubt(gate, permit, why)
    yield from reported(gate, permit, "voided", note=why)


def names_nothing(intent: Intent) -> bool:
    nothing = NOTHING.fullmatch(intent.key)
    if not intent.key.strip() or intent.bad_field or OBJECT.search(intent.key):
        return True
    return nothing is not None and (intent.bad_field is None or not nothing[1])
