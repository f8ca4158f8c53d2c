"""task: its result is kept with the thread, by the order of calls, and a future."""

from __future__ import annotations

import inspect
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
    def call(*args: Any, **kwargs: Any) -> Future:
        thread = types.running
        assert thread is not None
        thread.tasks += 1
        if thread.tasks <= len(thread.results):
            return Future(thread, thread.results[thread.tasks - 1], thread.tasks)
        made = function(*args, **kwargs)
        if not inspect.isawaitable(made):
            thread.results.append(made)
        return Future(thread, made, thread.tasks)

    return call
