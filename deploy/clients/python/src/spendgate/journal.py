"""What this machine knows of the actions that it guards: the answer to "did I act already?"."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Protocol

State = Literal["asked", "doubted", "begun", "repeated", "ended", "reported"]
UNFINISHED = ("doubted", "begun", "repeated", "ended")


@dataclass(frozen=True)
class Entry:
    """An idempotency key and what became of it.

    asked: the body has not begun; a check_id is that of an allow that was made for this journal.
    doubted: the body may have begun elsewhere. begun: it has begun, and is in doubt unless a process is running it.
    repeated: as begun, and another process has begun it again, so that the first one can no longer say that nothing was moved.
    ended: it has a status, which is not reported yet. reported: the service knows the status.
    """

    key: str
    action: str  # a hash of the action; empty after the service refused to judge it
    #: The Idempotency-Key of the redemption, and the nonce of the checks: a secret of the processes that share the journal.
    redemption: str = field(default_factory=lambda: "py-" + secrets.token_hex(16), repr=False)
    state: State = "asked"
    check_id: str = ""
    status: str = ""  # executed, failed or voided
    amount: str = ""  # the amount that was moved, if it differs from the check's
    reference: str = ""
    note: str = ""
    at: float = field(default_factory=time.time)  # when it was asked; later, the earliest time at which it may have begun


class Journal(Protocol):
    """A store of entries. Each call is atomic for all processes that share it, and durable when it returns."""

    def add(self, entry: Entry) -> Entry:
        """Stores the entry unless its key has one, and returns the entry that the key has then."""
        ...

    def move(self, key: str, was: State, /, **changes: Any) -> bool:
        """Changes the entry of the key if it has that state. Otherwise it changes nothing and returns False."""
        ...

    def unfinished(self) -> Sequence[Entry]:
        """The entries that are doubted, begun, repeated or ended, oldest first."""
        ...


class SQLiteJournal:
    """A journal in a file. Processes of one machine may share it; it must not be deleted."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if os.fspath(path) == ":memory:":
            raise ValueError("a journal in memory is forgotten with the process: give it the path of a file")
        self._path = os.path.abspath(os.fspath(path))  # the program may change its working directory
        names = [f.name for f in fields(Entry)]
        with closing(self._connect()) as db:
            columns = ", ".join(f"{name} {'REAL' if name == 'at' else 'TEXT'} NOT NULL" for name in names)
            db.execute(f"CREATE TABLE IF NOT EXISTS spendgate_journal ({columns}, PRIMARY KEY (key)) WITHOUT ROWID")

    def _connect(self) -> sqlite3.Connection:
        # Each call has a connection of its own: no process or thread inherits another's.
        db = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA synchronous=EXTRA")  # with FULL a rollback journal may survive a loss of power, and undo
        return db

    def add(self, entry: Entry) -> Entry:
        values = asdict(entry)
        with closing(self._connect()) as db:
            db.execute(
                f"INSERT OR IGNORE INTO spendgate_journal ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                list(values.values()),
            )
            return Entry(**db.execute("SELECT * FROM spendgate_journal WHERE key = ?", [entry.key]).fetchone())

    def move(self, key: str, was: State, /, **changes: Any) -> bool:
        with closing(self._connect()) as db:
            changed = db.execute(
                f"UPDATE spendgate_journal SET {', '.join(f'{name} = ?' for name in changes)} WHERE key = ? AND state = ?",
                [*changes.values(), key, was],
            )
            return changed.rowcount == 1

    def unfinished(self) -> list[Entry]:
        with closing(self._connect()) as db:
            found = db.execute(f"SELECT * FROM spendgate_journal WHERE state IN {UNFINISHED} ORDER BY at, key")
            return [Entry(**row) for row in found]


class MemoryJournal:
    """A journal of only this process. It is enough if the service remembers redemptions."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._lock, self._process = threading.Lock(), os.getpid()

    def _own(self) -> threading.Lock:
        """Drops what a forked process inherited and was only asked: with the same secrets, both would seem to have asked first."""
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
            self._entries = {key: entry for key, entry in self._entries.items() if entry.state != "asked"}
        return self._lock

    def add(self, entry: Entry) -> Entry:
        with self._own():
            return self._entries.setdefault(entry.key, entry)

    def move(self, key: str, was: State, /, **changes: Any) -> bool:
        with self._own():
            entry = self._entries.get(key)
            if entry is None or entry.state != was:
                return False
            self._entries[key] = replace(entry, **changes)
            return True

    def unfinished(self) -> list[Entry]:
        with self._own():
            return sorted((e for e in self._entries.values() if e.state in UNFINISHED), key=lambda e: e.at)
