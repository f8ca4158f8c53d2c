"""task: its result is kept with the thread, by the order of calls, and a future."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator
from typing import Any

from . import types


class Future:
    def __init__(self, thread: types.Thread, made: Any, place: int) -> None:
        self._thread, self._made, self._place = thread, made, place

    def result(self) -> Any:
        return self._made

    def __await__(self) -> Generator[Any, Any, Any]:
        if inspect.isawaitable(self._made):
            self._made = yield from self._made.__await__()
            self._thread.results.append(self._made)
        return self._made


def task(function: Callable[..., Any]) -> Callable[..., Future]:
    def call(*args: Any) -> Future:
        thread = types.running
        assert thread is not None, "Called get_config outside of a runnable context"
        thread.tasks += 1
        if thread.tasks <= len(thread.results):
            return Future(thread, thread.results[thread.tasks - 1], thread.tasks)
        made = function(*args)
        if not inspect.isawaitable(made):
            thread.results.append(json.loads(json.dumps(made)))  # a checkpointer stores it
        return Future(thread, made, thread.tasks)

    return call
