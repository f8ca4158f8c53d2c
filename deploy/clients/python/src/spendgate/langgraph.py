"""Guarded functions in nodes and tools of LangGraph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from langgraph.config import get_config
from langgraph.func import task
from langgraph.types import interrupt

from .errors import AlreadyExecuted, ApprovalPending
from .tools import require_guarded

F = TypeVar("F", bound=Callable[..., Any])


def interrupting(function: F, *, executed: Callable[[AlreadyExecuted], Any] = lambda over: over.reference) -> F:
    """Makes a guarded function interrupt its graph while people decide.

    The value with which the graph is resumed is not trusted: the service is asked whether people approved, and the graph is
    interrupted again while they have not. A node runs again from its beginning when it is resumed; a function in it that was
    carried out before returns the value of executed, by default the reference.

    LangGraph gives the values with which a node was resumed to its interrupts by their order. So each run interrupts where the
    runs before it did, also after the action passed: that people were asked is a task's result, which the checkpointer keeps.
    The answer to one question never reaches another.
    """

    require_guarded(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        while True:
            ended = _Ended(executed)

            def ask(ended: _Ended = ended) -> dict[str, Any] | None:
                with ended:
                    ended.value = function(*args, **kwargs)
                return ended.request

            request = task(ask)().result() if _in_a_graph() else ask()
            if request is not None:
                interrupt(request)
            elif ended.over:
                return ended.result()

    @functools.wraps(function)
    async def call_soon(*args: Any, **kwargs: Any) -> Any:
        while True:
            ended = _Ended(executed)

            async def ask(ended: _Ended = ended) -> dict[str, Any] | None:
                with ended:
                    ended.value = await function(*args, **kwargs)
                return ended.request

            request = await task(ask)() if _in_a_graph() else await ask()
            if request is not None:
                interrupt(request)
            elif ended.over:
                return ended.result()

    return cast(F, call_soon if inspect.iscoroutinefunction(function) else call)


class _Ended:
    """What one call of a guarded function ended with.

    Not over where an earlier run of the node made the call, whose result is a task's.
    """

    def __init__(self, executed: Callable[[AlreadyExecuted], Any]) -> None:
        self._executed = executed
        self.over = False
        self.value: Any = None
        self.problem: Exception | None = None
        self.request: dict[str, Any] | None = None  # what people have to decide

    def __enter__(self) -> None:
        self.over = True

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> bool:
        if isinstance(problem, AlreadyExecuted):
            self.value = self._executed(problem)
        elif isinstance(problem, ApprovalPending) and problem.approval_id is not None:
            self.request = {"approval_id": problem.approval_id, "check_id": problem.check_id, "message": problem.result.message}
        elif isinstance(problem, Exception):
            self.problem = problem
        return isinstance(problem, Exception)

    def result(self) -> Any:
        if self.problem is not None:
            raise self.problem
        return self.value


def _in_a_graph() -> bool:
    try:
        get_config()
    except RuntimeError:
        return False
    return True
