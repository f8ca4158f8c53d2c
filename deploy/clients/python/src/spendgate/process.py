"""The state of a client in one process. A forked process inherits neither its connections nor the bodies that run in it."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakValueDictionary

from .errors import Running


class Claim:
    """The claim of a call that decides about a key or runs its body. It ends with the permit that holds it, unless released before."""


class Process:
    """A process that uses a client. http is its httpx client, or None if that belongs to another process."""

    def __init__(self, http: Any) -> None:
        self.http, self._lock = http, threading.RLock()
        self._claims: WeakValueDictionary[str, Claim] = WeakValueDictionary()

    def claim(self, key: str) -> Claim:
        claim = Claim()
        with self._lock:
            if self._claims.setdefault(key, claim) is not claim:
                raise Running(key)
        return claim

    def release(self, key: str, claim: Claim | None) -> None:
        with self._lock:
            if claim is not None and self._claims.get(key) is claim:
                del self._claims[key]

    def runs(self, key: str) -> bool:
        return key in self._claims
