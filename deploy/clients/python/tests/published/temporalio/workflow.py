"""Runs activities at once; wait_condition calls the functions that a test put into `meanwhile`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from .common import RetryPolicy
from .exceptions import ActivityError, ApplicationError

T = TypeVar("T")
meanwhile: list[Callable[[], None]] = []


def _same(what: T) -> T:
    return what


defn = run = signal = _same


class unsafe:
    @staticmethod
    @contextmanager
    def imports_passed_through() -> Iterator[None]:
        yield


async def execute_activity(
    activity: Callable[..., Any], *, args: Sequence[Any], start_to_close_timeout: timedelta, retry_policy: RetryPolicy
) -> Any:
    while True:
        try:
            return activity(*args)
        except Exception as error:
            kind = error.type if isinstance(error, ApplicationError) else type(error).__name__
            if isinstance(error, ApplicationError) and error.non_retryable or kind in (retry_policy.non_retryable_error_types or ()):
                cause = error if isinstance(error, ApplicationError) else ApplicationError(str(error), type=kind)
                raise ActivityError(str(error)) from cause


async def wait_condition(condition: Callable[[], bool], *, timeout: timedelta) -> None:
    while not condition():
        meanwhile.pop(0)()
