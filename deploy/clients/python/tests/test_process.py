"""What belongs to one process: its connections, and the bodies that run in it."""

from __future__ import annotations

import gc
import pathlib
import socket
import threading
from typing import Any

import httpx
import pytest
from scripted import Server, _answer, _request
from test_adapters import ALLOW, REPORT
from test_guard import ACTION, REPLAY, gate
from test_mistakes import READ, in_child

import spendgate
from spendgate import AsyncSpendgate, Spendgate, SQLiteJournal
from spendgate.tools import explain

FAILED: dict[str, Any] = {**REPORT, "expect": {**REPORT["expect"], "body": {"status": "failed"}}}


class Keeping(Server):
    """Keeps connections open, and records which connection each request used."""

    peers: list[int]

    def _play(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                while _request(connection):
                    self.peers.append(connection.getpeername()[1])
                    connection.sendall(_answer({"body": "allow", "headers": [["Connection", "keep-alive"]]}))
            except OSError:
                return


def test_a_fork_has_connections_of_its_own() -> None:
    """On an inherited connection parent and child would read each other's answers."""
    server = Keeping([])
    server.peers = []
    client = Spendgate(server.url, "key")
    short, connections = client.within(5), client._http
    assert client.get_check("chk_1").check_id == "chk_1"

    def child() -> list[object]:
        with short:
            found: list[object] = [short.get_check("chk_1").check_id, client.get_check("chk_1").check_id]
        return [*found, connections.is_closed]

    assert in_child(child) == ["chk_1", "chk_1", False]
    assert client.get_check("chk_1").check_id == "chk_1"  # what the child closed was its own
    first, second, third, fourth = server.peers
    assert first == fourth != second == third
    awaiting = AsyncSpendgate(server.url, "key")
    inherited = awaiting._http
    assert in_child(lambda: awaiting._http is not inherited) and awaiting._http is inherited
    client.close()


def test_a_given_client_is_of_one_process() -> None:
    server = Server([READ])
    client = Spendgate(server.url, "key", http=httpx.Client())
    assert client.get_check("chk_1").check_id == "chk_1"

    def child() -> str:
        try:
            with client:
                client.get_check("chk_1")
        except spendgate.SpendgateError as error:
            return str(error)
        return ""

    assert "make a client in this one" in in_child(child)
    assert server.close() == []


def test_the_record_is_that_of_the_check() -> None:
    server = Server([{**READ, "change": {"check_id": "chk_2"}}])
    with pytest.raises(spendgate.NoAnswer, match="another check"):
        Spendgate(server.url, "key").get_check("chk_1")
    assert server.close() == []


def test_what_runs_is_not_in_doubt(tmp_path: pathlib.Path) -> None:
    """A call for a body that is running may be repeated later, and nobody is told to report it."""
    server = Server([ALLOW, FAILED])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    @client.guard("refund", key=lambda: "1", amount=lambda: "1", currency="USD", counterparty="c", failed_on=(ZeroDivisionError,))
    def pay(inner: bool) -> None:
        if inner:
            with pytest.raises(spendgate.Running, match="being carried out now") as running:
                pay(False)
            for told in (str(running.value), explain(running.value)):
                assert "call again when that has ended; report nothing" in told and "Do not repeat" not in told
            assert running.value.check_id == "" and isinstance(running.value, spendgate.InDoubt)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pay(True)
    assert server.close() == []


def test_what_ended_meanwhile_is_not_repeated(tmp_path: pathlib.Path) -> None:
    """A second call reads that the body has begun. Before the service answers it, the body fails, which gives its check back."""
    inside, leave, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(Server):
        def exchange(self, method: str, uri: str, headers: Any, body: bytes) -> dict[str, Any]:
            if method == "GET":
                leave.set()
                assert ended.wait(10)
                return {"body": "allow"}
            return {"status": 201, "body": "outcome"} if uri.endswith("outcome") else {"body": "allow"}

    server, ran = Slow([]), []  # type: Server, list[str]
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    @client.guard(
        "refund", key=lambda: "1", amount=lambda: "1", currency="USD", counterparty="c", provider_key=True, failed_on=(ZeroDivisionError,)
    )
    def pay(who: str, *, check_id: str = "") -> None:
        ran.append(who)
        inside.set()
        assert leave.wait(10)
        raise ZeroDivisionError

    def first() -> None:
        with pytest.raises(ZeroDivisionError):
            pay("first")
        ended.set()

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(spendgate.Running):
        pay("second")
    leave.set()
    thread.join()
    with pytest.raises(spendgate.AlreadyReported):
        pay("third")
    assert ran == ["first"] and server.close() == []


def test_what_is_starting_is_not_in_doubt(tmp_path: pathlib.Path) -> None:
    doubts: list[Any] = []

    class Looking(SQLiteJournal):
        def move(self, key: str, was: Any, /, **changes: Any) -> bool:
            moved = super().move(key, was, **changes)
            if changes.get("state") == "begun":
                doubts.append(client.resume())
            return moved

    server = Server([ALLOW, REPORT])
    client = Spendgate(server.url, "key", journal=Looking(tmp_path / "j"), redeem=False)
    with client.check(**ACTION):
        pass
    assert doubts == [[]] and server.close() == []


def test_a_claim_ends_with_its_permit(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, REPLAY, REPLAY, READ, REPORT])
    client = gate(server, tmp_path)
    checked = client.check(**ACTION, provider_key=True)
    checked.__enter__()
    with pytest.raises(spendgate.Running), client.check(**ACTION, provider_key=True):
        raise AssertionError("it ran")
    del checked
    gc.collect()
    with client.check(**ACTION, provider_key=True) as c:
        assert c.repeated
    assert server.close() == []


def test_a_claim_ends_with_what_refused(tmp_path: pathlib.Path) -> None:
    """Even while somebody keeps the error."""
    server = Server([{**ALLOW, "change": {"decision": "block"}}] * 2)
    client = gate(server, tmp_path)
    held: list[spendgate.Blocked] = []
    for _ in range(2):
        with pytest.raises(spendgate.Blocked) as blocked, client.check(**ACTION):
            raise AssertionError("it ran")
        held.append(blocked.value)
    assert server.close() == []
