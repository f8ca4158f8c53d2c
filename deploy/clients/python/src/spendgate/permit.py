"""The terms of a body, which the guard gets, and the permit, which the body gets."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass, field

from . import api
from .errors import InDoubt, SpendgateError
from .journal import Entry
from .process import Claim
from .types import Result
from .wire import encode, money, ordered

FRESH = 60  # seconds for which a body may begin on an answer

log = logging.getLogger("spendgate")


class EndsLater(TypeError):
    """A body returned before it ran to its end."""


@dataclass(frozen=True)
class Terms:
    """The terms on which a guard runs a body."""

    provider_key: bool = False  # the provider takes the check_id as its idempotency key
    provider_key_hours: float = 24  # for which it certainly remembers one
    failed_on: tuple[type[BaseException], ...] = ()  # the errors that mean that nothing was moved
    wait: float = 0  # how many seconds to wait for people to decide

    def __post_init__(self) -> None:
        if not isinstance(self.failed_on, tuple) or not all(isinstance(kind, type) for kind in self.failed_on):
            raise TypeError("failed_on is a tuple of the types of errors")

    def repeats(self, age: float = 24 * 3600) -> bool:
        """Whether a body that began this many seconds ago is repeated. By default age is 24 hours: how long the service knows a key."""
        return self.provider_key and age <= self.provider_key_hours * 3600

    def failed(self, error: BaseException) -> bool:
        """Whether a body's error means that nothing was moved. An error of this package must be named in failed_on as such."""
        if isinstance(error, InDoubt):
            return False
        own = isinstance(error, SpendgateError)
        return isinstance(error, tuple(kind for kind in self.failed_on if not own or issubclass(kind, SpendgateError)))


@dataclass(frozen=True)
class Intent:
    """An action, and the body's terms."""

    action: api.Action
    terms: Terms
    #: What is wrong with the values that the key was made of; None if only the key's text is known.
    bad_field: str | None = None


@dataclass(frozen=True)
class Asked:
    """An intent with the service's first answer."""

    intent: Intent
    result: Result
    at: float = field(default_factory=time.time)

    @property
    def is_old(self) -> bool:
        """Whether much may have been reported about the check since. A clock that was set does not make an answer young."""
        return not 0 <= time.time() - self.at <= FRESH


class Permit:
    """The permission to run the body now, under check_id. The body may say what it did."""

    def __init__(self, entry: Entry, result: Result | None, redeemed: bool, repeated: bool) -> None:
        self.check_id, self.result, self.redeemed, self._key = entry.check_id, result, redeemed, entry.key
        self.repeated = repeated  # the body may have run before, under the same check_id
        self.end: dict[str, str] = {"status": "executed"}
        self.moved = False  # whether the body said so
        self._action = entry.action
        self._claim: Claim | None = None

    def executed(self, *, reference: str | int | None = None, amount: api.Amount | None = None) -> None:
        """Sets what is reported. Give amount only if the amount that was moved differs from the check's.

        A reference with more than 256 characters, or with characters that cannot be sent, is left out, as is an invalid amount.
        """
        self.moved = True
        self.end = {"status": "executed", "reference": reportable("reference", reference, 256), "amount": reportable_amount(amount)}

    def failed(self, note: str | None = None) -> None:
        """Says that nothing was moved. A repeated body is in doubt nevertheless."""
        self.moved = False
        self.end = {"status": "failed", "note": reportable("note", note, 4096)}


def reportable(name: str, value: object, most: int) -> str:
    """A text that the service and the journal accept; an unsuitable one is left out, since the money was moved in any case."""
    try:
        text = str(value) if isinstance(value, (str, int)) else ""
    except ValueError:  # an int of thousands of digits
        text = "\0"
    fits = len(text) <= most and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)
    if value is not None and (not fits or not isinstance(value, (str, int))):
        _left_out(name, value)
    return text if fits else ""


def reportable_amount(value: api.Amount | None) -> str:
    try:
        return "" if value is None else str(money(value))
    except (TypeError, ValueError):
        _left_out("amount", value)
        return ""


def _left_out(name: str, value: object) -> None:
    try:
        shown = repr(value)
    except ValueError:
        shown = f"a {type(value).__name__}"
    log.warning("a %s that cannot be reported is left out: %.300s", name, shown)


def digest(action: api.Action) -> str:
    """A hash of an action. It is the same if only the wording of the reason or the spelling of the amount or currency differs."""
    deciding = dict(action.deciding)
    deciding["amount"] = str(money(deciding["amount"]))
    deciding["currency"] = str(deciding["currency"]).upper()
    return hashlib.sha256(encode(ordered(deciding))).hexdigest()
