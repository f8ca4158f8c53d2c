"""Guarded functions in nodes and tools of LangGraph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from langgraph.types import interrupt

from .errors import AlreadyExecuted, ApprovalPending
from .tools import require_guarded

F = TypeVar("F", bound=Callable[..., Any])


def interrupting(function: F, *, executed: Callable[[AlreadyExecuted], Any] = lambda over: over.reference) -> F:
    """Has a guarded function interrupt its graph while people decide.

    What the graph is resumed with is not looked at: the service is asked whether they approved, and the graph interrupts again
    while they have not. A node runs again from its beginning when it is resumed; a function in it that was carried out
    before returns what executed makes of that, the reference unless told.
    """

    require_guarded(function)

    def ask(pending: ApprovalPending) -> None:
        if pending.approval_id is None:
            raise pending
        interrupt({"approval_id": pending.approval_id, "check_id": pending.check_id, "message": pending.result.message})

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        while True:
            try:
                return function(*args, **kwargs)
            except AlreadyExecuted as over:
                return executed(over)
            except ApprovalPending as pending:
                ask(pending)

    @functools.wraps(function)
    async def call_soon(*args: Any, **kwargs: Any) -> Any:
        while True:
            try:
                return await function(*args, **kwargs)
            except AlreadyExecuted as over:
                return executed(over)
            except ApprovalPending as pending:
                ask(pending)

    return cast(F, call_soon if inspect.iscoroutinefunction(function) else call)
