"""What authors of agents do around a guard: forks, threads, pickles, forgotten awaits."""

from __future__ import annotations

import asyncio
import copy
import decimal
import os
import pathlib
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted import Server
from test_adapters import ALLOW, REPORT, approval
from test_guard import ACTION, gate

import spendgate
from spendgate import AsyncSpendgate, Entry, MemoryJournal, Spendgate, SQLiteJournal

ESCALATE: dict[str, Any] = {**ALLOW, "change": {"check_id": "chk_0", "decision": "escalate", "approval_id": "apr_1"}}
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


def test_a_fork_has_secrets_of_its_own() -> None:
    """With the same nonce and redemption key, parent and child would both be told that they came first."""
    journal = MemoryJournal()
    asked, begun = journal.add(Entry("asked", "h")), journal.add(Entry("begun", "h"))
    journal.move("begun", "asked", state="begun")
    child: list[Entry] = in_child(lambda: [journal.add(Entry("asked", "h")), journal.add(Entry("begun", "h"))])
    assert child[0].redemption != asked.redemption
    assert child[1].redemption == begun.redemption and child[1].state == "begun"
    assert journal.add(Entry("asked", "h")) == asked


def test_what_is_repeated_runs_once_at_a_time(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, REPORT])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")
    inside, leave = threading.Event(), threading.Event()

    @client.guard("refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="c", provider_key=True)
    def pay(order: str, *, check_id: str = "") -> str:
        assert not inside.is_set()
        inside.set()
        assert leave.wait(10)
        return check_id

    first: list[str] = []
    thread = threading.Thread(target=lambda: first.append(pay("1")))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(spendgate.Running, match="being carried out now"):
        pay("1")
    assert client.within(1).resume() == []  # nothing is in doubt
    leave.set()
    thread.join()
    assert first == ["chk_1"] and server.close() == []


def test_results_and_errors_are_copied(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, {**ALLOW, "change": {"decision": "block"}}, ESCALATE, approval("denied")])
    client = gate(server, tmp_path, attempts=1)
    result = client.check(**ACTION)
    for again in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert type(again) is spendgate.Result and again.allowed and again.check_id == "chk_1"
    over = spendgate.AlreadyExecuted("chk_1", spendgate.CheckOutcome("executed"), "psp-1")
    errors: list[spendgate.SpendgateError] = [spendgate.InDoubt("k", "chk_1", "why"), over, spendgate.NoAnswer("lost")]
    actions: list[dict[str, Any]] = [{**ACTION, "idempotency_key": key} for key in ("blocked", "denied", "lost")]
    for action in actions:
        with pytest.raises(spendgate.SpendgateError) as raised, client.check(**action):
            raise AssertionError("it ran")
        errors.append(raised.value)
    assert {type(error) for error in errors[3:]} == {spendgate.Blocked, spendgate.Denied, spendgate.NoDecision}
    for error in errors:
        other = pickle.loads(pickle.dumps(error))
        assert type(other) is type(error) and str(other) == str(error) and other.maybe_done == error.maybe_done
        assert vars(other).keys() == vars(error).keys()


def test_who_waits_for_people_does_not_wait_for_a_refusal() -> None:
    assert not issubclass(spendgate.Denied, spendgate.ApprovalPending)


def test_a_check_is_no_condition(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW] * 2)
    client = gate(server, tmp_path)
    with pytest.raises(TypeError, match="`with gate.check"):
        if client.check(**ACTION):
            raise AssertionError("it ran")
    other = AsyncSpendgate(server.url, "key", agent_id="a", policy_id="p")
    with pytest.raises(TypeError, match="`async with`"):
        if other.check("refund", amount="1", currency="USD", counterparty="c"):
            raise AssertionError("it ran")

    async def ask() -> None:
        if await other.check("refund", amount="1", currency="USD", counterparty="c"):
            raise AssertionError("it ran")

    with pytest.raises(TypeError, match="`async with`"):
        asyncio.run(ask())
    assert server.close() == []


SAME = [["Idempotent-Replayed", "true"], ["First-Request", "same"]]


@pytest.mark.parametrize("later", [61, -1])
@pytest.mark.parametrize("redeem", [False, True])
def test_an_old_answer_is_asked_for_again(later: float, redeem: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile people found that nobody carried it out, and reported that."""
    server = Server([ALLOW, {**ALLOW, "headers": [*SAME, ["Outcome", "voided"]]}])
    checked, now = gate(server, tmp_path, redeem).check(**ACTION), time.time
    monkeypatch.setattr(time, "time", lambda: now() + later)
    with pytest.raises(spendgate.AlreadyReported, match="voided"), checked:
        raise AssertionError("it ran")
    assert server.close() == [] and server.nonces[0] == server.nonces[1]


@pytest.mark.parametrize(("later", "again"), [(50, []), (3600, [{**ALLOW, "headers": SAME}])])
def test_a_check_begins_later(later: float, again: list[Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([ALLOW, *again, REPORT])
    checked, now = gate(server, tmp_path).check(**ACTION), time.time
    monkeypatch.setattr(time, "time", lambda: now() + later)
    with checked as c:
        assert c.check_id == "chk_1"
    assert server.close() == []


def test_a_program_that_rounds(tmp_path: pathlib.Path) -> None:
    """Amounts are exact, whatever the precision of the program's arithmetic."""
    paying: Callable[[str], dict[str, Any]] = lambda amount: {**ACTION, "amount": amount}
    server = Server([ALLOW, REPORT])
    client = gate(server, tmp_path)
    with decimal.localcontext(decimal.Context(prec=2)):
        with client.check(**paying("100.25")):
            pass
        with pytest.raises(spendgate.KeyReused), client.check(**paying("100.75")):
            raise AssertionError("it ran")
    assert server.close() == []


def test_a_program_that_changes_its_directory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = SQLiteJournal("journal.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    journal.add(Entry("k", "h"))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["journal.db"]


def test_functions_of_classes(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, REPORT] * 3)
    client = gate(server, tmp_path, agent_id="a", policy_id="p")
    guarding = client.guard("refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="c")

    class Shop:
        @guarding
        def pay(self, order: str) -> str:
            return type(self).__name__ + order

        @staticmethod
        @guarding
        def pay_out(order: str) -> str:
            return order

        @classmethod
        @guarding
        def pay_for(cls, order: str) -> str:
            return cls.__name__ + order

    assert [Shop().pay("1"), Shop().pay_out("2"), Shop().pay_for("3")] == ["Shop1", "2", "Shop3"]
    assert server.close() == []
    for above in (staticmethod, classmethod):
        with pytest.raises(TypeError, match="comes below"):
            guarding(above(Shop.pay))


def test_clients_close(tmp_path: pathlib.Path) -> None:
    with gate(None, tmp_path) as client:
        assert isinstance(client, Spendgate) and not client._http.is_closed
    assert client._http.is_closed

    async def use() -> AsyncSpendgate:
        async with AsyncSpendgate("http://127.0.0.1:9") as client:
            return client

    assert asyncio.run(use())._http.is_closed


def test_cancelled_at_any_time(tmp_path: pathlib.Path) -> None:
    """A body whose task is cancelled is not run again; a body that had not begun may be."""

    class AnyOrder(Server):
        def exchange(self, method: str, uri: str, headers: Any, body: bytes) -> dict[str, Any]:
            time.sleep(0.01)
            return {"status": 201, "body": "outcome"} if uri.endswith("outcome") else {"body": "allow"}

    server, ran = AnyOrder([]), []  # type: Server, list[str]

    async def cancel() -> None:
        client = AsyncSpendgate(server.url, "key", agent_id="a", policy_id="p", journal=tmp_path / "j", redeem=False)

        @client.guard("refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="c")
        async def pay(order: str) -> None:
            ran.append(order)
            await asyncio.sleep(0.01)

        for number in range(20):
            task = asyncio.create_task(pay(str(number)))
            await asyncio.sleep(number * 0.003)
            task.cancel()
            ends = await asyncio.gather(task, pay(str(number)), return_exceptions=True)
            over = (type(None), asyncio.CancelledError, spendgate.InDoubt, spendgate.AlreadyExecuted)
            assert all(isinstance(end, over) for end in ends), ends

    asyncio.run(cancel())
    assert len(ran) == len(set(ran)) > 0 and server.close() == []


def test_a_check_without_a_key_is_no_context(tmp_path: pathlib.Path) -> None:
    """The check was asked for all the same, and the error names it."""
    server, without = Server([ALLOW]), {name: member for name, member in ACTION.items() if name != "idempotency_key"}
    with pytest.raises(spendgate.BadKey, match="chk_1 was asked for without one"):
        with gate(server, tmp_path).check(**without):
            raise AssertionError("it ran")
    assert server.close() == [] and not SQLiteJournal(tmp_path / "j").move("", "asked", state="asked")


@pytest.mark.parametrize("customer", [None, object(), 1.5, True])
def test_a_counterparty_is_a_name(tmp_path: pathlib.Path, customer: object) -> None:
    """Each object would be a counterparty of its own for rules and budgets, and nobody would be one, too."""
    server = Server([])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    @client.guard("refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="{customer}")
    def pay(order: str, customer: object) -> None:
        raise AssertionError("it ran")

    with pytest.raises(TypeError, match=r"counterparty='\{customer\}': 'customer' is a"):
        pay("order-1", customer)
    assert server.close() == []


def test_an_entry_that_is_printed_shows_no_secret() -> None:
    """The entries that resume() returns are printed."""
    entry = Entry("order-1", "h")
    assert entry.redemption not in f"{entry} {[entry]!r}"
