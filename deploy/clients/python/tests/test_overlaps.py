"""Two processes share a journal, and one repeats a body while it runs in the other."""

from __future__ import annotations

import asyncio
import pathlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from scripted import Server, _answer
from test_adapters import ALLOW, REPORT
from test_guard import ACTION, ANOTHER, gate
from test_mistakes import READ

import spendgate
from spendgate import AsyncSpendgate, Entry, MemoryJournal, Spendgate, SQLiteJournal

FAILED: dict[str, Any] = {**REPORT, "expect": {**REPORT["expect"], "body": {"status": "failed"}}}


class NotSent(Exception):
    pass


class Http11:
    """Keeps connections open, and answers as a scripted server does."""

    def __init__(self, server: Server) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                exchange = server.exchange("POST", self.path, list(self.headers.items()), body)
                self.wfile.write(_answer(exchange).replace(b"Connection: close\r\n", b""))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        server.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize("declines_first", [True, False])
def test_what_another_process_repeats_did_not_fail(declines_first: bool, tmp_path: pathlib.Path) -> None:
    """One call that moved nothing does not prove the same of the other: a new attempt would pay again."""
    server = Server([ALLOW, READ, REPORT])
    began, repeated, leave, ended = (threading.Event() for _ in range(4))
    first: list[BaseException] = []

    def slow() -> None:
        try:
            with gate(server, tmp_path).check(**ACTION, provider_key=True, failed_on=(NotSent,)):
                began.set()
                assert repeated.wait(10) and (declines_first or ended.wait(10))
                raise NotSent
        except Exception as error:
            first.append(error)
        leave.set()

    thread = threading.Thread(target=slow)
    thread.start()
    assert began.wait(10)
    other = gate(server, tmp_path, agent_id="a", policy_id="p")
    members = {name: ACTION[name] for name in ("amount", "currency", "counterparty")}

    @other.guard("refund", key=lambda: "order-1", **members, provider_key=True)
    def pay(*, check_id: str = "") -> None:
        repeated.set()
        assert not declines_first or leave.wait(10)

    pay()
    ended.set()
    thread.join()
    assert isinstance(first[0], spendgate.InDoubt) and "another process" in str(first[0])
    assert server.close() == [] and other.resume() == []


def test_what_nobody_repeats_failed(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, FAILED])
    with pytest.raises(NotSent), gate(server, tmp_path).check(**ACTION, provider_key=True, failed_on=(NotSent,)):
        raise NotSent
    assert server.close() == [] and gate(None, tmp_path).resume() == []


def test_what_is_repeated_may_be_repeated_again(tmp_path: pathlib.Path) -> None:
    """A body that a process repeated, and died in, may be repeated again."""
    journal = SQLiteJournal(tmp_path / "j")
    server = Server([ALLOW, READ, READ, READ, REPORT])
    for _ in range(2):
        with pytest.raises(spendgate.InDoubt), gate(server, tmp_path).check(**ACTION, provider_key=True):
            raise RuntimeError("lost")
        if len(server.requests) == 1:
            server.exchanges.insert(1, ALLOW)  # a blocking check asks first
    assert journal.unfinished()[0].state == "repeated" and [e.key for e in gate(server, tmp_path).resume()] == ["order-1"]
    server.exchanges.insert(4, ALLOW)
    with gate(server, tmp_path).check(**ACTION, provider_key=True) as c:
        c.executed(reference="psp-1")
    assert server.close() == [] and journal.add(Entry("order-1", "")).status == "executed"


def test_a_body_that_says_it_moved_money_did_not_fail(tmp_path: pathlib.Path) -> None:
    """Even if the body raises an error afterwards."""
    server = Server([ALLOW])
    with pytest.raises(spendgate.InDoubt), gate(server, tmp_path).check(**ACTION, failed_on=(ValueError,)) as c:
        c.executed(reference="psp-1")
        raise ValueError("the receipt has no number")
    report = {**FAILED, "expect": {**FAILED["expect"], "path": "/v1/checks/chk_2/outcome", "body": {"status": "failed"}}}
    server.exchanges += [{**ALLOW, "change": {"check_id": "chk_2"}}, report]
    with pytest.raises(ValueError), gate(server, tmp_path).check(**ANOTHER, failed_on=(ValueError,)) as c:
        c.executed(reference="psp-1")
        c.failed("it was sent back")
        raise ValueError("declined")
    assert server.close() == []


def test_a_client_that_was_closed_reports_later(tmp_path: pathlib.Path) -> None:
    """The money was moved, so an error of the client is no error of the body."""
    server = Server([ALLOW, REPORT])
    client = gate(server, tmp_path)
    with client.check(**ACTION) as c:
        c.executed(reference="psp-1")
        client.close()
    assert len(server.requests) == 1 and gate(server, tmp_path).resume() == [] and server.close() == []


def test_a_task_that_is_cancelled_when_its_body_has_ended(tmp_path: pathlib.Path) -> None:
    """The body's result is known, so it is written down and reported later."""
    server = Server([ALLOW, REPORT])

    async def run() -> None:
        client = AsyncSpendgate(server.url, "key", agent_id="a", policy_id="p", journal=tmp_path / "j", redeem=False)
        members = {name: ACTION[name] for name in ("amount", "currency", "counterparty")}

        @client.guard("refund", key=lambda: "order-1", **members, reference=str)
        async def pay() -> str:
            task = asyncio.current_task()
            assert task is not None and task.cancel()
            return "psp-1"

        with pytest.raises(asyncio.CancelledError):
            await pay()

    asyncio.run(run())
    assert SQLiteJournal(tmp_path / "j").unfinished()[0].state == "ended"
    assert gate(server, tmp_path).resume() == [] and server.close() == []


def test_event_loops_of_their_own(tmp_path: pathlib.Path) -> None:
    """Each asyncio.run() has a loop of its own, and the client still has connections of the loop before."""

    class Keeping(Server):
        def exchange(self, method: str, uri: str, headers: Any, body: bytes) -> dict[str, Any]:
            return {"status": 201, "body": "outcome"} if uri.endswith("outcome") else {"body": "allow"}

    kept = Http11(Keeping([]))
    client = AsyncSpendgate(kept.url, "key", agent_id="a", policy_id="p", journal=tmp_path / "j", redeem=False)

    @client.guard("refund", key="{order}", amount="1", currency="USD", counterparty="c")
    async def pay(order: str) -> str:
        return order

    assert [asyncio.run(pay(order)) for order in ("1", "2", "3")] == ["1", "2", "3"]
    kept.close()


def test_a_function_of_the_action_with_a_default(tmp_path: pathlib.Path) -> None:
    server = Server([{**ALLOW, "expect": {**ALLOW["expect"], "contains": ['"idempotency_key":"refund-7"']}}, REPORT])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    @client.guard("refund", key=lambda order, kind="refund": f"{kind}-{order}", amount="1", currency="USD", counterparty="c", reference=str)
    def pay(order: str) -> str:
        return "psp-1"

    assert pay("7") == "psp-1" and server.close() == []


def test_an_end_that_nobody_takes_is_in_doubt() -> None:
    """Neither the journal nor the service takes the end."""

    class Full(MemoryJournal):
        def move(self, key: str, was: Any, /, **changes: Any) -> bool:
            if changes.get("state") == "ended":
                raise OSError("no space left")
            return super().move(key, was, **changes)

    for lost in (True, False):
        server = Server([ALLOW, {**REPORT, "fail": "hang_up"}] if lost else [ALLOW, REPORT])
        client = Spendgate(server.url, "key", journal=Full(), redeem=False, attempts=1)
        ran = []
        try:
            with client.check(**ACTION) as c:
                c.executed(reference="psp-1")
                ran.append("ended")
        except spendgate.InDoubt as doubt:
            ran.append(str(doubt))
        assert len(ran) == 1 + lost and ("neither be written down" in ran[-1]) == lost and server.close() == []
