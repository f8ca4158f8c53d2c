"""The terms of a body, which the guard gets, and the permit, which the body gets."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from . import api
from .errors import InDoubt, SpendgateError
from .types import Result
from .wire import encode, money, ordered

log = logging.getLogger("spendgate")

#: The type of an error, or a predicate of the result, that means that nothing was moved.
FailedIf = Union[type[BaseException], Callable[[Any], object]]


class EndsLater(TypeError):
    """A body returned before it ran to its end."""


@dataclass(frozen=True)
class Terms:
    """The terms on which a guard asks, and runs a body."""

    wait: float = 0  # how many seconds to wait for people to decide
    take_over: bool = False  # the provider takes the execution_id as its idempotency key
    take_over_within_hours: int | None = None
    again_after_hours: int | None = None
    replace: bool = False
    failed_if: FailedIf | tuple[FailedIf, ...] = ()
    reference: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not all(callable(one) for one in self._failures):
            raise TypeError("failed_if is the type of an error, a predicate of the result, or a tuple of these")
        if self.take_over_within_hours is not None and not self.take_over:
            raise TypeError("take_over_within_hours is of no use without take_over")

    @property
    def _failures(self) -> tuple[FailedIf, ...]:
        return self.failed_if if isinstance(self.failed_if, tuple) else (self.failed_if,)

    @property
    def members(self) -> dict[str, Any]:
        """What the request has of them."""
        names = ("take_over", "take_over_within_hours", "again_after_hours", "replace")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def raised(self, error: Exception) -> bool:
        """Whether a body's error means that nothing was moved. An error of this package must be named as such, InDoubt cannot be."""
        own = isinstance(error, SpendgateError)
        kinds = (kind for kind in self._failures if isinstance(kind, type) and (not own or issubclass(kind, SpendgateError)))
        return not isinstance(error, InDoubt) and isinstance(error, tuple(kinds))

    def returned(self, value: Any) -> bool | None:
        """Whether a body's result means that nothing was moved. None: it looks like an error, and nothing says what it means."""
        predicates = [one for one in self._failures if not isinstance(one, type)]
        if not predicates:
            return None if _looks_like_an_error(value) else False
        answers = [predicate(value) for predicate in predicates]
        if any(inspect.isawaitable(answer) for answer in answers):
            raise TypeError("a predicate of failed_if is a coroutine function: its answer is not known")
        return any(answers)


def _looks_like_an_error(value: Any) -> bool:
    if isinstance(value, str):
        return value.lstrip()[:6].lower().startswith(("error", "failed"))
    member = value.get if isinstance(value, Mapping) else lambda name: getattr(value, name, None)
    flagged = any(member(name) is True for name in ("isError", "is_error")) or member("ok") is False  # of MCP, httpx, requests
    return flagged or (isinstance(value, Mapping) and bool(value.get("error")))


@dataclass(frozen=True)
class Intent:
    """A payment: an action with its payment_key, and the body's terms."""

    action: api.Action
    terms: Terms
    #: What is wrong with the values that the key was made of; None if only the key's text is known.
    bad_field: str | None = None
    #: Makes the action again of the arguments, which may have changed.
    again: Callable[[], api.Action] | None = None

    @property
    def key(self) -> str:
        return str(self.action.members["payment_key"])

    @property
    def changed(self) -> bool:
        return self.again is not None and digest(self.again()) != digest(self.action)


class Permit:
    """The permission to run the body, now and once. execution_id is the provider's idempotency key."""

    def __init__(self, key: str, result: Result, execution_id: str, redemption_id: str) -> None:
        self.payment_key, self.result, self.check_id = key, result, result.check_id
        self.execution_id, self.redemption_id = execution_id, redemption_id
        self._moved: dict[str, Any] | None = None

    def executed(self, *, reference: str | int | None = None, amount: api.Amount | None = None) -> None:
        """Sets what is reported when the body has ended. Give amount only if the amount that was moved differs from the check's.

        A reference with more than 256 characters, or with characters that cannot be sent, is left out, as is an invalid amount.
        """
        said = {"reference": _reportable(reference), "amount": _reportable_amount(amount)}
        self._moved = {name: value for name, value in said.items() if value not in (None, "")}


def _reportable(value: object) -> str:
    """A reference that the service accepts; an unsuitable one is left out, since the money was moved in any case."""
    try:
        text = str(value) if isinstance(value, (str, int)) else ""
    except ValueError:  # an int of thousands of digits
        text = "\0"
    fits = len(text) <= 256 and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)
    if value is not None and (not fits or not isinstance(value, (str, int))):
        _left_out("reference", value)
    return text if fits else ""


def _reportable_amount(value: api.Amount | None) -> Any:
    try:
        return None if value is None else money(value)
    except (TypeError, ValueError):
        _left_out("amount", value)
        return None


def _left_out(name: str, value: object) -> None:
    try:
        shown = repr(value)
    except ValueError:
        shown = f"a {type(value).__name__}"
    log.warning("a %s that cannot be reported is left out: %.300s", name, shown)


def digest(action: api.Action) -> str:
    """A hash of an action. It is the same if only the wording of the reason or the spelling of the amount or currency differs."""
    members = {name: member for name, member in action.members.items() if name != "reason_text"}
    members.update(amount=str(money(members["amount"])), currency=str(members["currency"]).upper())
    return hashlib.sha256(encode(ordered(members))).hexdigest()
