"""What the guard is told of a body, and what the body is given."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass

from . import api
from .errors import InDoubt, SpendgateError
from .journal import Entry
from .process import Claim
from .types import Result
from .wire import encode, money, ordered

log = logging.getLogger("spendgate")


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

    def failed(self, error: BaseException) -> bool:
        """Whether a body's error means that nothing was moved. One of this package, as of a guard in the body, is to be named itself."""
        if isinstance(error, InDoubt):
            return False
        own = isinstance(error, SpendgateError)
        return isinstance(error, tuple(kind for kind in self.failed_on if not own or issubclass(kind, SpendgateError)))


@dataclass(frozen=True)
class Intent:
    """An action, and the body's terms."""

    action: api.Action
    terms: Terms
    #: What is wrong with the values that its key was made of; None where only the key's text is known.
    bad_field: str | None = None


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
        self.moved = False  # its body said so
        self._action = entry.action
        self._claim: Claim | None = None

    def executed(self, *, reference: str | int | None = None, amount: api.Amount | None = None) -> None:
        """Says what the report names; amount only if another was moved than the check's.

        A reference of more than 256 characters, or with some that cannot be sent, is left out, and so is what is no amount.
        """
        self.moved = True
        self.end = {"status": "executed", "reference": reportable("reference", reference, 256), "amount": reportable_amount(amount)}

    def failed(self, note: str | None = None) -> None:
        """Says that nothing was moved. Of a body that is repeated that is in doubt all the same."""
        self.moved = False
        self.end = {"status": "failed", "note": reportable("note", note, 4096)}


def reportable(name: str, value: object, most: int) -> str:
    """A text that the service and the journal take: the money was moved, whatever it is."""
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
    """The same of the same action, in other words, too."""
    deciding = dict(action.deciding)
    deciding["amount"] = str(money(deciding["amount"]))
    deciding["currency"] = str(deciding["currency"]).upper()
    return hashlib.sha256(encode(ordered(deciding))).hexdigest()
