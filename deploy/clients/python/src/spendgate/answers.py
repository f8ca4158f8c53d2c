"""What answers have besides the members of openapi.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


def apart(default: Any, *, shown: bool = True) -> Any:
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


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The answer to an action, with what its headers say."""

    decision: Literal["allow", "block", "escalate"]
    replayed: bool = apart(False)  # the service repeated an earlier answer
    redeem_required: bool = apart(False)  # the check must be redeemed before the action is carried out
    outcome: CheckOutcome | None = apart(None)  # next_step considers it, unlike next_step in body
    redemption: CheckRedemption | None = apart(None)  # not None if somebody redeemed the check to carry the action out
    body: bytes = apart(b"", shown=False)  # the answer as it came
    checked: bool = apart(False, shown=False)  # whether it is the answer to check()
    age: float | None = apart(None, shown=False)  # seconds since the check, by the service's clock, if the answer gives the time

    @property
    def allowed(self) -> bool:
        """Whether the service says that the action may be carried out.

        It is false for a simulated result, for one that was read later, and when the check was redeemed, has to be redeemed
        first, or an outcome was reported. For a replayed result it is true even if the action was carried out and nobody
        reported it. For a payment it is true only in the answer to who redeemed it.
        """
        payment = getattr(self, "payment", None)
        if payment is not None:
            return self.checked and self.decision == "allow" and payment.proceed
        return self.checked and self.decision == "allow" and not (self.outcome or self.redemption or self.redeem_required)

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, kw_only=True)
class Replayable:
    replayed: bool = apart(False)  # the same request was answered before


@dataclass(frozen=True, kw_only=True)
class Polled:
    retry_after: int = apart(0)


@dataclass(frozen=True, kw_only=True)
class Ending:
    status: Literal["queued", "running", "succeeded", "failed", "canceled"]

    @property
    def ended(self) -> bool:
        return self.status not in ("queued", "running")
