"""How both clients read httpx's answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Any

import httpx

from .errors import NoAnswer
from .send import Reply

MOST_ANSWER = 8 << 20  # bytes; the largest answers take some 3 MiB


def lost(error: httpx.HTTPError, part: Reply | None = None) -> NoAnswer:
    never_sent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return NoAnswer(f"no answer from the service: {type(error).__name__}: {error}", maybe_done=not never_sent, part=part)


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
