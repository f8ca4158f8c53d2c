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
    """Makes a guarded function interrupt its graph while people decide.

    The value with which the graph is resumed is not trusted: the service is asked whether people approved, and the graph is
    interrupted again while they have not. A node runs again from its beginning when it is resumed; a function in it that was
    carried out before returns the value of executed, by default the reference.
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
