"""What both clients make of httpx's answers."""

from __future__ import annotations

import time

import httpx

from .errors import NoAnswer
from .send import Reply

MOST_ANSWER = 8 << 20  # bytes; the largest answers take some 3 MiB


def lost(error: httpx.HTTPError) -> NoAnswer:
    never_sent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return NoAnswer(f"no answer from the service: {type(error).__name__}: {error}", maybe_done=not never_sent)


class Body:
    """A body as it comes: an address that is wrong could send without end."""

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
