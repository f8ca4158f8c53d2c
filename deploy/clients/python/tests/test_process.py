"""What belongs to one process: its connections."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from scripted import Server, _answer, _request

import spendgate
from spendgate import AsyncSpendgate, Spendgate

READ: dict[str, Any] = {"expect": {"method": "GET", "path": "/v1/checks/chk_1"}, "body": "allow"}


def in_child(call: Callable[[], object]) -> Any:
    """The return value of call in a forked process."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        with os.fdopen(writing, "wb") as out:
            pickle.dump(call(), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        content = answer.read()
    os.wait()
    return pickle.loads(content)


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


def test_clients_close() -> None:
    with Spendgate("http://127.0.0.1:9") as client:
        assert not client._http.is_closed
    assert client._http.is_closed

    async def use() -> AsyncSpendgate:
        async with AsyncSpendgate("http://127.0.0.1:9") as client:
            return client

    assert asyncio.run(use())._http.is_closed
