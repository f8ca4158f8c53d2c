"""How steps are taken with httpx."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

import httpx

from .errors import NoAnswer
from .send import Pause, Reply, Step, Steps, Transfer

T = TypeVar("T")

MOST_ANSWER = 8 << 20  # bytes; the largest answers take some 3 MiB


def lost(error: httpx.HTTPError) -> NoAnswer:
    never_sent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return NoAnswer(f"no answer from the service: {type(error).__name__}: {error}", maybe_done=not never_sent)


def without_delay(event: str, info: Mapping[str, Any]) -> None:
    """Makes a connection send each packet at once, as those of asyncio do. Otherwise a body waits 40 ms for an acknowledgement."""
    if event == "connection.connect_tcp.complete":
        info["return_value"].get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Body:
    """A body as it is received, with limits: a wrong address could send without end."""

    def __init__(self, timeout: float) -> None:
        self._ends = time.monotonic() + timeout
        self._pieces: list[bytes] = []
        self._length = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > MOST_ANSWER or time.monotonic() > self._ends:
            raise httpx.ReadError("the answer does not end")

    def reply(self, response: httpx.Response) -> Reply:
        return Reply(response.status_code, response.headers.multi_items(), b"".join(self._pieces))


def drive(steps: Steps[T], take: Callable[[Step], Any]) -> T:
    """Takes steps by blocking."""
    answer: Any = None
    failure: Exception | None = None
    with closing(steps):
        while True:
            try:
                step = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            answer, failure = None, None
            try:
                answer = take(step)
            except Exception as error:
                failure = error


def blocking(http: httpx.Client, pause: Callable[[float], object]) -> Callable[[Step], Any]:
    """Returns a function that takes one step."""

    def take(step: Step) -> Any:
        if isinstance(step, Pause):
            return pause(step.seconds)
        return transfer(http, step) if isinstance(step, Transfer) else step.body()

    return take


def transfer(http: httpx.Client, t: Transfer) -> Reply | NoAnswer:
    try:
        sent = http.build_request(
            t.method, t.url, headers=t.headers, content=t.body, timeout=t.timeout, extensions={"trace": without_delay}
        )
        # A redirect would send the key to another address.
        response = http.send(sent, stream=True, follow_redirects=False)
        body = Body(t.timeout)
        try:
            for piece in response.iter_raw():
                body.add(piece)
            return body.reply(response)
        finally:
            response.close()
    except httpx.HTTPError as error:
        return lost(error)
