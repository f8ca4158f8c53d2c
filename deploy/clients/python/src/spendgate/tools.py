"""A guarded function as a tool of any library: a name, a description, a JSON schema, and a call that tells a model what became of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from . import schema
from .errors import (
    ActionChanged,
    ApprovalExpired,
    ApprovalPending,
    BadKey,
    Blocked,
    Denied,
    Differs,
    Escalated,
    Frozen,
    InDoubt,
    SpendgateError,
    Unanswered,
)
from .guard import Carried

State = Literal["executed", "failed", "invalid", "refused", "pending", "denied", "expired", "in_doubt", "unanswered", "error"]

#: The states of errors, and how their texts begin. A class stands before the class that it extends.
STATES: list[tuple[type[Exception], State, str]] = [
    (BadKey, "invalid", "Not carried out. "),
    (ApprovalPending, "pending", "Not carried out yet. "),
    (ApprovalExpired, "expired", "Not carried out. "),
    (Denied, "denied", "Not carried out. "),
    (Blocked, "refused", "Not carried out. "),
    (Escalated, "refused", "Not carried out. "),
    (Differs, "refused", "Not carried out. "),
    (Frozen, "refused", "Not carried out. "),
    (ActionChanged, "refused", "Not carried out. "),
    (Unanswered, "unanswered", ""),
    (InDoubt, "in_doubt", "Not carried out now. "),
    (SpendgateError, "error", "Not carried out. "),
    (TypeError, "invalid", "Not carried out. "),
    (ValueError, "invalid", "Not carried out. "),
]


@dataclass(frozen=True)
class Told:
    """What a call came to, for a model: the message never reads like a success if it was none."""

    state: State
    message: str
    reference: str | None = None
    approval_id: str | None = None

    @property
    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Tool:
    """A tool of a guarded function. Its schema has nothing that the guard fills in. call is awaited if the function is."""

    name: str
    description: str
    schema: dict[str, Any]
    call: Callable[[Mapping[str, Any]], Any]
    is_async: bool


def tool(guarded: Callable[..., Any], *, name: str | None = None, description: str | None = None) -> Tool:
    """Makes a tool of a function under @gate.guard(...). Arguments are validated before anything is asked."""
    if not hasattr(guarded, "__spendgate__"):
        raise TypeError(f"{getattr(guarded, '__name__', guarded)!r} is not guarded: put @gate.guard(...) around it first")
    carry: Callable[..., Any] = getattr(guarded, "__spendgate__")
    accepts = schema.of(guarded)

    def call(arguments: Mapping[str, Any]) -> Told:
        try:
            return _ended(carry(**accepts.read(arguments)))
        except Exception as error:
            return _told(error)

    async def call_soon(arguments: Mapping[str, Any]) -> Told:
        try:
            return _ended(await carry(**accepts.read(arguments)))
        except Exception as error:
            return _told(error)

    is_async = inspect.iscoroutinefunction(guarded)
    text = description or inspect.getdoc(guarded) or ""
    return Tool(name or guarded.__name__, text, accepts.schema, call_soon if is_async else call, is_async)


def _ended(carried: Carried) -> Told:
    said = carried.value if isinstance(carried.value, str) else ""
    named = f", as {carried.reference}" if carried.reference else ""
    if carried.failed:
        return Told("failed", f"Not carried out: it failed. {carried.problem or said}".strip())
    if carried.before:
        return Told("executed", f"Carried out before{named}. It is not repeated.", carried.reference)
    return Told("executed", said or f"Carried out{named}.", carried.reference)


def _told(error: Exception) -> Told:
    for kind, state, begins in STATES:
        if isinstance(error, kind):
            then = " Call again with exactly these arguments afterwards." if state == "pending" else ""
            return Told(state, f"{begins}{error}{then}", approval_id=getattr(error, "approval_id", None))
    raise error
