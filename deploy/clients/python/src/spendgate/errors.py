"""The errors of the client: one tree, whose root is SpendgateError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .visible import printable

if TYPE_CHECKING:
    from .send import Reply
    from .types import CheckOutcome, Outcome, Result


class SpendgateError(Exception):
    """The root of the tree."""

    #: whether the service may have carried the request out
    maybe_done = False

    def __reduce__(self) -> tuple[Any, ...]:
        """A pool of processes returns an error as a pickle, which would call __init__ with the text alone."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[SpendgateError], args: tuple[Any, ...], members: dict[str, Any]) -> SpendgateError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(members)
    return error


class NoAnswer(SpendgateError):
    """There is no answer, or no valid one."""

    def __init__(self, problem: str, *, maybe_done: bool = True, part: Reply | None = None) -> None:
        super().__init__(problem)
        self.maybe_done = maybe_done
        self.part = part  # the received part of an answer that broke off


class APIError(SpendgateError):
    """An unsuccessful answer. code is empty when another server answered, not the service.

    For events_removed, next_after is where a reader of events goes on. For outcome_already_reported, latest is the last report.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        request_id: str,
        retry_after: int,
        next_after: int = 0,
        latest: Outcome | None = None,
    ) -> None:
        self.latest = latest
        self.status, self.code, self.message, self.next_after = status, code, message, next_after
        self.request_id, self.retry_after = request_id, retry_after
        self.maybe_done = not self.definite

    @property
    def faults(self) -> list[str]:
        """Each faulty field of a request, with what is accepted."""
        return self.message.split("; ") if self.code == "validation_error" else []

    @property
    def definite(self) -> bool:
        """Whether the service itself refused the request, so that it certainly was not carried out."""
        return self.status // 100 == 4 and self.code != ""

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status >= 500 or self.status == 429

    def __str__(self) -> str:
        if not self.code:
            return f"{self.status}: the answer is not spendgate's; is the address right?"
        text = f"{printable(self.code)}: {printable(self.message)} ({self.status}, {printable(self.request_id)})"
        return text + (f"; try again after {self.retry_after} s" if self.retry_after else "")


class NoDecision(SpendgateError):
    """It is unknown whether the service decided a check. Nothing is allowed.

    Check the same action with this idempotency key to ask again.
    """

    maybe_done = True

    def __init__(self, idempotency_key: str, error: SpendgateError) -> None:
        super().__init__(f"there is no decision: {error}")
        self.idempotency_key, self.error = idempotency_key, error


class BadSignature(SpendgateError):
    """A webhook delivery that is not signed by the service, or too old."""


class KeyReused(SpendgateError, ValueError):
    """An idempotency key that the journal has for another action, or whose action changed after it was allowed."""


class BadKey(SpendgateError, TypeError):
    """An idempotency key that identifies no action: it is empty or the text of an object. The service was not asked."""

    def __init__(self, key: str, why: str = "") -> None:
        super().__init__(
            f"{key[:80]!r} names no action: {f'{why}, and ' if why else ''}what is guarded has an idempotency key that belongs to it, "
            "such as the number of an order, and not the text of an object, which is another one each time, or of nothing"
        )


class NotCarriedOut(SpendgateError):
    """The guard did not run the body. next_step says what to do."""

    def __init__(self, result: Result, reason: str = "") -> None:
        self.result, self.check_id = result, result.check_id
        self.next_step = result.next_step or ""
        super().__init__(reason or " ".join(filter(None, [result.message, result.next_step])))


class Blocked(NotCarriedOut):
    """The service blocked the action."""


class RedemptionRequired(NotCarriedOut):
    """The policy requires redemption of the check, and this guard does not redeem. Nothing was carried out.

    Give it a key of role gateway, or redeem=False if the payment provider that the body calls redeems check_id.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(
            result,
            f"{result.check_id} is to be redeemed before its action is carried out, and the role of this key does not redeem: "
            "use a key of role gateway, or redeem=False where what the body calls redeems check_id",
        )


class ApprovalPending(NotCarriedOut):
    """People decide first. approval_id is None when no rule asks for an approval."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.approval_id = result.approval_id


class Denied(NotCarriedOut):
    """People denied the action. It is not an ApprovalPending, so that no caller waits for a decision that was made."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.approval_id = result.approval_id


class ApprovalExpired(Denied):
    """Nobody decided in time, or the approval was not used in time."""


class AlreadyReported(SpendgateError):
    """The check is over: outcome says how, next_step whether another attempt may be made with another idempotency key."""

    def __init__(self, check_id: str, outcome: CheckOutcome, reference: str = "", next_step: str = "") -> None:
        self.check_id, self.outcome, self.reference = check_id, outcome, reference
        self.next_step = next_step or outcome.next_step
        super().__init__(f"{check_id} is over: {outcome.status}. {self.next_step}")


class AlreadyExecuted(AlreadyReported):
    """The action was carried out under this check. reference is empty when this journal does not know it."""


class InDoubt(SpendgateError):
    """The action may have been carried out, and nobody reported it. It is not repeated.

    Look at the provider, then report the outcome of check_id: executed, failed or voided.
    """

    def __init__(self, key: str, check_id: str, why: str) -> None:
        super().__init__(
            f"{key!r} is in doubt: {why}. Do not repeat it. Look whether it was carried out under {check_id}, and report that outcome."
        )
        self.key, self.check_id = key, check_id


class Unanswered(InDoubt):
    """The action may have been carried out, and the service cannot give its outcome now: error says why.

    Call again when the service answers: the guard asks it first.
    """

    def __init__(self, key: str, check_id: str, error: SpendgateError) -> None:
        SpendgateError.__init__(
            self,
            f"{key!r} may have been carried out under {check_id}, and the service cannot say now: {error}. Do not carry it out in another "
            "way. Call again when the service answers.",
        )
        self.key, self.check_id, self.error = key, check_id, error


class Running(InDoubt):
    """Another call of this process decides about the action or carries it out now.

    Call again when that has ended. There is nothing to report: check_id is empty.
    """

    def __init__(self, key: str) -> None:
        SpendgateError.__init__(self, f"{key!r} is being carried out now: call again when that has ended; report nothing.")
        self.key, self.check_id = key, ""
