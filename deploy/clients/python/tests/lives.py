"""Runs an agent in processes that are killed between two steps."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx

import spendgate
from spendgate import Spendgate
from spendgate.send import Step


class Mortal(Spendgate):
    """A client whose process is killed (9) at die_at: before or after a step, or in the body."""

    die_at = -1
    _passed = 0

    def pass_by(self) -> None:
        if self._passed == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self._passed += 1

    def _take(self, step: Step) -> Any:
        self.pass_by()
        taken = super()._take(step)
        self.pass_by()
        return taken


class Ledger:
    """A provider's book of its payments, by idempotency key if it takes keys."""

    def __init__(self, path: pathlib.Path, takes_key: bool) -> None:
        self.path, self.takes_key = path, takes_key
        with closing(self._connect()) as db:
            db.execute("CREATE TABLE IF NOT EXISTS moved (action TEXT, key TEXT)")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30, isolation_level=None)

    def move(self, action: str, key: str) -> str:
        with closing(self._connect()) as db:
            known = self.takes_key and db.execute("SELECT 1 FROM moved WHERE key = ?", [key]).fetchone()
            if not known:
                db.execute("INSERT INTO moved VALUES (?, ?)", [action, key])
        return f"psp-{key}"

    def moved(self) -> list[tuple[str, str]]:
        with closing(self._connect()) as db:
            return list(db.execute("SELECT action, key FROM moved ORDER BY action"))


def live(make: Callable[[], Mortal], ledger: Ledger, action: str, die_at: int) -> tuple[str, str]:
    """Carries an action out in a process of its own. Returns how the process ended, `killed` or otherwise, and the check's id."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "wb") as out:
                gate = make()
                gate.die_at = die_at
                pickle.dump(carry_out(gate, ledger, action), out)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        content = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed", ""
    ended: tuple[str, str] = pickle.loads(content)
    return ended


def carry_out(gate: Mortal, ledger: Ledger, action: str) -> tuple[str, str]:
    @gate.guard(
        "refund", key="{action}", amount="1.10", currency="USD", counterparty="{action}", provider_key=ledger.takes_key, reference=str
    )
    def pay(action: str, *, check_id: str = "") -> str:
        gate.pass_by()
        moved = ledger.move(action, check_id)
        gate.pass_by()
        return moved

    while True:
        try:
            return "executed", pay(action).removeprefix("psp-")
        except spendgate.AlreadyExecuted as over:
            return "executed", over.check_id
        except spendgate.AlreadyReported as over:
            return over.outcome.status, over.check_id
        except spendgate.Unanswered:
            gate._pause(0.2)
        except spendgate.InDoubt as doubt:
            return "in doubt", doubt.check_id
        except (spendgate.NoDecision, spendgate.NoAnswer, spendgate.APIError) as error:
            if isinstance(error, spendgate.APIError) and not error.temporary:
                raise
            gate._pause(0.2)  # the service was killed, too: it comes back


def client(url: str, key: str, **options: Any) -> Mortal:
    return Mortal(url, key, agent_id="killed", http=httpx.Client(verify=False), **options)
