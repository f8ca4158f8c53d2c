"""The action of a call, which the decorator makes from the arguments of the function that it guards."""

from __future__ import annotations

import functools
import inspect
import re
import string
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from numbers import Integral
from typing import Any, Union
from uuid import UUID

from . import api
from .permit import EndsLater, Intent, Permit, Terms, digest
from .wire import payable

#: The parameters that the guard fills in.
FILLED = ("execution_id", "check_id", "permit")

MARK = "7046029254386353131"  # digits, which are the same however a part of a key is written

#: A member of the action: a function of the call's arguments, a text with {names} of them, or a value.
Member = Union[Callable[..., Any], str, Decimal, int, Mapping[str, Any], None]


@dataclass(frozen=True)
class Guarded:
    """A function, and how its calls become actions."""

    function: Callable[..., Any]
    members: Mapping[str, Member]
    terms: Terms

    def __post_init__(self) -> None:
        if isinstance(self.function, (staticmethod, classmethod)):
            raise TypeError(f"the guard comes below @{type(self.function).__name__}")
        called: Any = getattr(self.function, "__call__", None)  # the function may be an object with __call__
        for other in (inspect.isgeneratorfunction, inspect.isasyncgenfunction):
            if other(self.function) or other(called):
                raise TypeError("a generator's body runs later than its call: it cannot be guarded")
        if self.terms.take_over and not {"execution_id", "permit"} & set(self.filled):
            raise TypeError("a provider that takes the execution_id is given it: the function needs a parameter execution_id")
        key = self.members["payment_key"]
        if not callable(key) and (not isinstance(key, str) or "{" not in key):
            raise TypeError("payment_key has to name the call's arguments, such as payment_key='order-{order}'")
        taken = self.signature.parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in taken):
            for name, member in self.members.items():
                for unknown in _named(member) - {p.name for p in taken if p.name not in FILLED}:
                    raise TypeError(f"{name}={member!r}: the function has no argument {unknown}")

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @property
    def filled(self) -> list[str]:
        return [name for name in FILLED if name in self.signature.parameters]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Fails on wrong arguments before anything is asked."""
        bound = self.signature.bind(*args, **kwargs, **dict.fromkeys(self.filled, ""))
        bound.apply_defaults()
        return bound

    def intent(self, bound: inspect.BoundArguments, gate: Any) -> Intent:
        """Refuses an action that differs when it is made a second time, before anything is asked."""
        action, problem = self._action(bound, gate)
        again: Callable[[], api.Action] = lambda: self._action(bound, gate)[0]  # noqa: E731
        if digest(action) != digest(again()):
            raise TypeError("the functions of the action give not the same twice, as with now() or uuid4(): make that before the call")
        return Intent(action, self.terms, problem or (None if callable(self.members["payment_key"]) else ""), again)

    def _action(self, bound: inspect.BoundArguments, gate: Any) -> tuple[api.Action, str]:
        arguments = {name: value for name, value in bound.arguments.items() if name not in FILLED}
        naming = Naming()
        members = {name: self._value(name, member, arguments, naming) for name, member in self.members.items()}
        for name in ("agent_id", "policy_id"):
            members[name] = members[name] or getattr(gate, name)
        payable(members["amount"], members["currency"])
        problem = naming.problem or naming.blank
        if callable(self.members["payment_key"]) and self._has_gap(str(members["payment_key"]), arguments):
            problem = "a part of it is blank"
        return api.action(**members), problem

    def _has_gap(self, key: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a blank argument is a part of the key that a function made: another text in its place would make another key."""
        filled = {name: MARK if isinstance(value, str) and not value.strip() else value for name, value in arguments.items()}
        with suppress(Exception):  # of a function that takes certain texts only
            other = str(self._value("payment_key", self.members["payment_key"], filled, Naming()))
            return MARK in other and "".join(other.replace(MARK, "").split()) == "".join(key.split())
        return False

    def _value(self, name: str, member: Member, arguments: Mapping[str, Any], naming: Naming) -> Any:
        if member is None and name in ("amount", "currency", "counterparty"):
            if name not in arguments:
                raise TypeError(f"the function has no argument {name}: say {name}=... to the guard")
            return arguments[name]
        if callable(member):
            taken = inspect.signature(member).parameters.values()
            if any(p.kind is p.VAR_KEYWORD for p in taken):
                return member(**arguments)
            return member(**{p.name: arguments[p.name] for p in taken if p.name in arguments or p.default is p.empty})
        if isinstance(member, str) and name == "payment_key":
            return naming.vformat(member, (), arguments)
        if not isinstance(member, str):
            return member
        text = Naming()
        formatted = text.vformat(member, (), arguments)
        if text.problem and name != "reason_text":  # rules and budgets would take "None", or an address, for a name
            raise TypeError(f"{name}={member!r}: {text.problem}")
        return formatted

    def call(self, bound: inspect.BoundArguments, permit: Permit) -> Any:
        fill = {"execution_id": permit.execution_id, "check_id": permit.check_id, "permit": permit}
        bound.arguments.update({name: fill[name] for name in self.filled})
        return self.function(*bound.args, **bound.kwargs)

    def dress(self, wrapper: Callable[..., Any], carry: Callable[..., Any]) -> Callable[..., Any]:
        """Makes the wrapper look like the function without what the guard fills in, since the schemas of tools are made from it."""
        functools.update_wrapper(wrapper, self.function)
        shown = [p for name, p in self.signature.parameters.items() if name not in FILLED]
        setattr(wrapper, "__spendgate__", carry)  # for tool()
        setattr(wrapper, "__signature__", self.signature.replace(parameters=shown))
        wrapper.__annotations__ = {n: a for n, a in wrapper.__annotations__.items() if n not in FILLED}
        return wrapper


def _named(member: Member) -> set[str]:
    """The arguments that a text names."""
    if not isinstance(member, str):
        return set()
    fields = (name for _, name, _, _ in string.Formatter().parse(member) if name)
    return {re.split(r"[.\[]", name)[0] for name in fields} - {""}


class Naming(string.Formatter):
    """Formats a text, and finds values that name nothing, or whose text may differ between attempts: that of an object may be its memory address."""

    def __init__(self) -> None:
        self.problem, self.blank, self._field = "", "", ""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._field = field_name
        return super().get_field(field_name, args, kwargs)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        same = isinstance(value, (str, Integral, Decimal, UUID, date, time, Enum)) and not isinstance(value, bool)
        if not same and conversion != "s":  # with !s the author decided to use the text
            kinds = "a str, int, Decimal, UUID, date, time or Enum, or to be made text with !s"
            self.problem = f"{self._field!r} is a {type(value).__name__}: it has to be {kinds}"
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        text = super().format_field(value, format_spec)
        if not text.strip():
            self.blank = f"{self._field!r} is blank"
        return text


def is_coroutine(function: Callable[..., Any]) -> bool:
    """Whether calls of the function are awaited. It may be an object with an asynchronous __call__."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def takes_permit(body: Callable[..., Any]) -> None:
    """Fails where a body cannot be called with a permit: the payment would be in doubt."""
    with suppress(ValueError):  # of what has no signature
        try:
            inspect.signature(body, follow_wrapped=False).bind(None)
        except TypeError as fault:
            raise TypeError(f"pay() calls its body with a permit: {fault}") from None


def unfinished(returned: object) -> EndsLater | None:
    """The error of a body that returned something that has not run or not ended, which is stopped if possible."""
    runs_later = inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned)
    if not runs_later and not isinstance(returned, Future):
        return None
    for stop in ("close", "cancel"):
        with suppress(Exception):
            getattr(returned, stop)()
    what = type(returned).__name__
    return EndsLater(f"its body returned a {what}, which ends later than its call: await it in the body, under AsyncSpendgate")
