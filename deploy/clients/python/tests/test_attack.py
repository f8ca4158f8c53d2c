"""Agents are killed at every step, behind a proxy that does what networks do, two at a time for each payment.

The provider's ledger never has a payment twice, nor one that was not allowed, and what could be known is not in doubt.
"""

from __future__ import annotations

import http.client
import os
import pathlib
import pickle
import random
import signal
import socket
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import new_key
from scripted import _request

import spendgate
from spendgate import Spendgate
from spendgate.send import Step

PAYMENTS = int(os.environ.get("ATTACK_PAYMENTS", "16"))
STEPS = 10  # of a life, at which it is killed


class Declined(Exception):
    pass


class Network(threading.Thread):
    """A proxy that drops every header of answers. It loses, delays, doubles and cuts requests and answers, and gives answers to others."""

    def __init__(self, node: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._node, self._random, self._seen = urlsplit(node).netloc, random.Random(seed), [b""]
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.misled: list[bytes] = []  # the requests that got another's answer, after which a guard gives up
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.start()

    def run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                request = _request(connection)
                what = self._random.choice(["", "", "", "lost", "unanswered", "doubled", "late", "cut", "another's", "502"])
                if what == "lost":
                    return
                if what == "late":
                    time.sleep(self._random.random() / 5)
                answer = self._pass(*request)
                if what == "doubled":
                    answer = self._pass(*request)
                if what == "unanswered":
                    threading.Timer(self._random.random() / 3, self._pass, request).start()  # and it is delivered once more, later
                    return
                if what == "another's":
                    answer = self._random.choice(self._seen) or answer
                    self.misled.append(request[1].encode() + request[3])
                self._seen = [*self._seen[-8:], answer]
                if what == "502":
                    answer = b"HTTP/1.1 502 X\r\nContent-Length: 0\r\n\r\n"
                connection.sendall(answer[: self._random.randrange(len(answer)) if what == "cut" else None])
            except (OSError, ValueError, http.client.HTTPException):
                return

    def _pass(self, method: str, uri: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
        node = http.client.HTTPConnection(self._node, timeout=20)
        kept = {n: v for n, v in headers if n.lower() in ("x-api-key", "content-type", "prefer")}
        with closing(node):
            node.request(method, uri, body or None, kept)
            answer = node.getresponse()
            content = answer.read()
        return f"HTTP/1.1 {answer.status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class Ledger:
    """A provider's book of its payments. If it takes an idempotency key, it gives the same answer to it again, also a refusal."""

    def __init__(self, path: pathlib.Path, takes_key: bool) -> None:
        self.path, self.takes_key = path, takes_key
        with closing(self._connect()) as db:
            db.execute("CREATE TABLE answers (payment TEXT, execution TEXT, declined INT)")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30, isolation_level=None)

    def move(self, payment: str, execution: str, declines: bool) -> None:
        with closing(self._connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            known = db.execute("SELECT declined FROM answers WHERE execution = ?", [execution]).fetchone() if self.takes_key else None
            if known is None:
                db.execute("INSERT INTO answers VALUES (?, ?, ?)", [payment, execution, declines])
            db.execute("COMMIT")
        if known[0] if known else declines:
            raise Declined

    def moved(self) -> list[tuple[str, str]]:
        with closing(self._connect()) as db:
            return list(db.execute("SELECT payment, execution FROM answers WHERE NOT declined"))


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


def live(work: Callable[[], tuple[str, str]]) -> Callable[[], tuple[str, str]]:
    """Begins work in a process of its own. The result says how that ended, `killed` or otherwise."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as out:
                pickle.dump(work(), out)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)

    def ended() -> tuple[str, str]:
        with os.fdopen(reading, "rb") as answer:
            content = answer.read()
        _, status = os.waitpid(child, 0)
        how: tuple[str, str] = ("killed", "") if os.WIFSIGNALED(status) else pickle.loads(content)
        return how

    return ended


def lost(payment: str) -> bool:
    return int(payment.split(".")[1]) % 4 == 1


def carry_out(url: str, key: str, ledger: Ledger, payment: str, die_at: int, chance: float) -> tuple[str, str]:
    gate = Mortal(url, key, agent_id="attacked", policy_id=payment.split(".")[0], http=httpx.Client(verify=False), timeout=2, max_wait=0.2)
    gate.die_at = die_at

    def pay(permit: spendgate.Permit) -> str:
        gate.pass_by()
        ledger.move(payment, permit.execution_id, random.random() < chance)
        gate.pass_by()
        if chance and lost(payment):
            raise ConnectionError("the provider's answer is lost")
        return permit.execution_id

    amount = "999" if payment.endswith("0") else "1.10"
    while True:
        try:
            return "executed", gate.pay(
                pay, "refund", payment_key=payment, amount=amount, currency="USD", counterparty=payment, take_over=ledger.takes_key,
                failed_if=Declined, reference=str,
            ) or ""
        except (Declined, spendgate.Unanswered, spendgate.APIError):
            continue
        except spendgate.InDoubt as doubt:
            return "in doubt", doubt.check_id
        except spendgate.Blocked:
            return "blocked", ""
        finally:
            for _ in range(2000):
                if not gate.undelivered:
                    break
                time.sleep(0.01)


@pytest.mark.parametrize("takes_key", [False, True])
def test_attack(node: Spendgate, tmp_path: pathlib.Path, takes_key: bool) -> None:
    ledger, key, policy = Ledger(tmp_path / "ledger.db", takes_key), new_key(node, "gateway"), f"attack-{takes_key}-{os.getpid()}"
    cap = {"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 100, "currency": "USD"}}
    node.create_policy(policy_id=policy, name="attack", rules=[cap])
    network = Network(node.base, PAYMENTS)
    gate, doubts = Spendgate(node.base, key), 0
    for number in range(PAYMENTS):
        payment, dies = f"{policy}.{number}", [number % STEPS, (number * 7 + number // STEPS) % STEPS]
        lives = [live(partial(carry_out, network.url, key, ledger, payment, at, 0.3)) for at in [*dies, -1]]
        ends = [ended() for ended in lives]
        end, check_id = carry_out(node.base, key, ledger, payment, -1, 0)
        for _ in range(3):  # a request of a killed process may come late, and begin what was given back
            if end != "in doubt":
                break
            doubts += 1
            misled = any(f'"{payment}"'.encode() in request or check_id.encode() in request for request in network.misled)
            could_be = lost(payment) or misled or "killed" in [how for how, _ in ends]
            assert could_be and not takes_key, f"{payment}, killed at {dies}: {ends}"
            found = [execution for of, execution in ledger.moved() if of == payment]
            gate.report_outcome(check_id, "executed" if found else "voided", reference=found[0] if found else None)
            end, check_id = carry_out(node.base, key, ledger, payment, -1, 0)
        assert end == ("blocked" if payment.endswith("0") else "executed"), f"{payment}, killed at {dies}: {ends}, {end}"
    moved = ledger.moved()
    payable = sorted(f"{policy}.{number}" for number in range(PAYMENTS) if number % 10)
    assert sorted(of for of, _ in moved) == payable
    recorded = [(c.payment.payment_key, c.payment.execution_id or "") for c in gate.checks(policy_id=policy, outcome="executed") if c.payment]
    assert sorted(recorded) == sorted(moved)
    assert list(gate.checks(policy_id=policy, outcome="in_doubt")) == [] and doubts < PAYMENTS
