"""The service's answers, as dataclasses whose members have the names of the API.

They are dataclasses and not models of a library: the answers are few and flat, and a client
of a service that guards money should need nothing but an HTTP library.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

from .answers import CheckOutcome as CheckOutcome
from .answers import CheckRedemption as CheckRedemption
from .generated import *  # noqa: F403
from .generated import Result

T = TypeVar("T")
A = TypeVar("A", bound="Answer")

NO_CONDITION = (
    "a check is no condition: it only asks, and says the same to a program that was restarted. What moves money runs at most once "
    "in a function under @gate.guard(...), or as gate.pay(body, ...). Whoever only wants to look reads `allowed` or `decision` of the answer"
)


class Answer(Result):
    """The answer of check(). Its copies are results."""

    @classmethod
    def of(cls: type[A], result: Result) -> A:
        return cls(**{f.name: getattr(result, f.name) for f in fields(Result)})

    def __bool__(self) -> NoReturn:
        """Refuses `if gate.check(...): pay()`, which would pay again each time the program is restarted."""
        raise TypeError(NO_CONDITION)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Result, **{f.name: getattr(self, f.name) for f in fields(Result)}), ()


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list. total_count is None in a list that has none."""

    data: list[T]
    next_cursor: str | None
    has_more: bool
    total_count: int | None
