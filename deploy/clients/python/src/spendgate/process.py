"""The state of a client in one process. A forked process inherits neither its connections nor its undelivered reports."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from .errors import SpendgateError
from .send import Steps

PAUSE = 5.0  # seconds between attempts


class Process:
    """A process that uses a client. http is its httpx client, or None if that belongs to another process."""

    def __init__(self, http: Any, take: Callable[[Steps[None]], None], pause: Callable[[float], object]) -> None:
        self.http, self._take, self._pause = http, take, pause
        self._left: deque[tuple[Callable[[], Steps[None]], str]] = deque()
        self._lock, self._works = threading.Lock(), False

    @property
    def undelivered(self) -> list[str]:
        """The reports that are repeated in the background."""
        return [what for _, what in list(self._left)]

    def later(self, steps: Callable[[], Steps[None]], what: str) -> None:
        """Takes steps in the background, again and again until they succeed. A process that ends leaves them."""
        with self._lock:
            self._left.append((steps, what))
            if not self._works:
                self._works = True
                threading.Thread(target=self._work, name="spendgate reports", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._left:
                    self._works = False
                    return
                steps, what = self._left[0]
            try:
                self._take(steps())
            except SpendgateError:
                self._pause(PAUSE)
                self._left.rotate(-1)
                continue
            except Exception:
                logging.getLogger("spendgate").exception("it is not reported: %s", what)
            self._left.popleft()
