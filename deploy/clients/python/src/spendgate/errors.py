"""The errors of the client: one tree, whose root is SpendgateError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .visible import printable

if TYPE_CHECKING:
    from .types import Outcome, Payment, Result


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

    def __init__(self, problem: str, *, maybe_done: bool = True) -> None:
        super().__init__(problem)
        self.maybe_done = maybe_done


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


class Differs(APIError):
    """The payment was asked for before with another action; differs names the members. Nothing was carried out by this call.

    Another payment needs another payment_key. An action that nobody has carried out may be changed with replace=True.
    """

    differs: list[str]
    check_id: str


class Frozen(APIError):
    """Somebody froze what the request is about. Nothing was carried out by this call; after the release it may be made again."""


class ActionChanged(SpendgateError, ValueError):
    """The arguments changed after the action was allowed. Nothing was carried out, and that is reported."""


class BadKey(SpendgateError, TypeError):
    """A payment_key that names nothing: it is empty or the text of an object. The service was not asked."""

    def __init__(self, key: str, why: str = "") -> None:
        super().__init__(
            f"{key[:80]!r} names no payment: {f'{why}, and ' if why else ''}a payment_key belongs to what is paid, such as the number "
            "of an order, and is not the text of an object, which is another one each time, or of nothing"
        )


class NotCarriedOut(SpendgateError):
    """The guard did not run the body. next_step says what to do."""

    def __init__(self, result: Result) -> None:
        self.result, self.check_id, self.approval_id = result, result.check_id, result.approval_id
        self.reason_code = result.reason_code
        self.next_step = result.next_step or ""
        super().__init__(". ".join(filter(None, [(result.message or "").rstrip("."), result.next_step])))


class Blocked(NotCarriedOut):
    """The service blocked the action. Call again once the cause is mended."""


class Escalated(NotCarriedOut):
    """A rule wants people to look, and asks for no approval."""


class ApprovalPending(NotCarriedOut):
    """People decide first. Call again afterwards."""


class Denied(NotCarriedOut):
    """People denied the action. It is not an ApprovalPending, so that no caller waits for a decision that was made."""


class ApprovalExpired(Denied):
    """Nobody decided in time, or the approval was not used in time. The next call asks anew."""


class InDoubt(SpendgateError):
    """The payment may have been carried out, and nobody reported it. It is not repeated.

    While it is in_progress, another call may still be carrying it out: report nothing, and call again later. Otherwise look
    at the provider, then report the outcome of check_id: executed, failed or voided.
    """

    in_progress = False

    def __init__(self, key: str, check_id: str, why: str, *, in_progress: bool = False) -> None:
        then = f"Do not repeat it. Look whether it was carried out under {check_id}, and report that outcome."
        if in_progress:
            then = "Report nothing about it, and call again later."
        super().__init__(f"{key!r} is {'in progress' if in_progress else 'in doubt'}: {why}. {then}")
        self.payment_key, self.check_id, self.in_progress = key, check_id, in_progress


class Unanswered(InDoubt):
    """There is no usable answer, and this call carried nothing out. Call again: the service knows what became of the payment."""

    maybe_done = True

    def __init__(self, key: str, error: SpendgateError | str) -> None:
        SpendgateError.__init__(self, f"there is no answer about {key!r}: {error}. This call carried nothing out. Call again with the same arguments.")
        self.payment_key, self.check_id, self.error = key, "", error
