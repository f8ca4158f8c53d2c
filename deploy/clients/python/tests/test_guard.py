"""The guard's behaviour beyond the conformance cases."""

from __future__ import annotations

import concurrent.futures
import inspect
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from scripted import FILE, Server
from test_adapters import ALLOW, REPORT

import spendgate
from spendgate import AsyncSpendgate, Entry, MemoryJournal, Spendgate, SQLiteJournal

ACTION: dict[str, Any] = {**FILE["action"], "idempotency_key": "order-1"}
ANOTHER: dict[str, Any] = {**ACTION, "idempotency_key": "order-2"}
MEMBERS: dict[str, Any] = {name: member for name, member in FILE["action"].items() if name != "action_type"}
REPLAY = {**ALLOW, "headers": [["Idempotent-Replayed", "true"]]}


def gate(server: Server | None, path: pathlib.Path, redeem: bool = False, **options: Any) -> Spendgate:
    return Spendgate(server.url if server else "http://127.0.0.1:9", "key", journal=path / "j", redeem=redeem, **options)


def at_once(call: Callable[[], None], times: int) -> None:
    threads = [threading.Thread(target=call) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("make", [lambda path: SQLiteJournal(path / "j"), lambda path: MemoryJournal()])
def test_journals(make: Callable[[pathlib.Path], spendgate.Journal], tmp_path: pathlib.Path) -> None:
    journal = make(tmp_path)
    first = Entry("k", "hash")
    assert journal.add(first) == first and journal.add(Entry("k", "other")) == first and journal.unfinished() == []
    assert not journal.move("k", "begun", state="ended") and not journal.move("none", "asked", state="begun")
    won = []

    def begin() -> None:
        if journal.move("k", "asked", state="begun", check_id="chk_1"):
            won.append(1)

    at_once(begin, 8)
    assert won == [1] and [e.check_id for e in journal.unfinished()] == ["chk_1"]
    assert journal.move("k", "begun", state="ended", status="executed") and journal.move("k", "ended", state="reported")
    assert journal.unfinished() == [] and journal.add(first).state == "reported"


def test_one_of_many_threads_acts() -> None:
    """All threads have an allow, and one runs the body."""
    barrier, ran, ended = threading.Barrier(4), [], []  # type: threading.Barrier, list[str], list[str]
    journal = MemoryJournal()

    class Together(Spendgate):
        def _transfer(self, t: Any) -> Any:
            if t.url.endswith("/v1/checks"):
                barrier.wait(10)
            return super()._transfer(t)

    class InAnyOrder(Server):
        def exchange(self, method: str, uri: str, headers: Any, body: bytes) -> dict[str, Any]:
            return {"status": 201, "body": "outcome"} if uri.endswith("outcome") else {"body": "allow"}

    server = InAnyOrder([])

    def act() -> None:
        try:
            with Together(server.url, "key", journal=journal, redeem=False).check(**ACTION) as c:
                ran.append(c.check_id)
                ended.append("ran")
        except spendgate.SpendgateError as error:
            ended.append(type(error).__name__)

    at_once(act, 4)
    assert ran == ["chk_1"] and ended.count("ran") == 1
    assert set(ended) <= {"ran", "AlreadyExecuted", "InDoubt"}, ended


def test_a_redemption_has_one_key(tmp_path: pathlib.Path) -> None:
    """After a process that died before its body began, the next one redeems under the same key."""
    keys: list[str] = []

    class Listening(Server):
        def exchange(self, method: str, uri: str, headers: list[tuple[str, str]], body: bytes) -> dict[str, Any]:
            keys.extend(value for name, value in headers if name.lower() == "idempotency-key")
            return super().exchange(method, uri, headers, body)

    lost, other = ({"expect": {"method": "POST", "path": f"/v1/checks/chk_{n}/redeem"}, "fail": "hang_up"} for n in (1, 2))
    server = Listening([ALLOW, lost, REPLAY, lost, {**ALLOW, "change": {"check_id": "chk_2"}}, other])
    for action in (ACTION, ACTION, ANOTHER):
        with pytest.raises(spendgate.NoAnswer):
            with gate(server, tmp_path, redeem=True, attempts=1).check(**action):
                raise AssertionError("it ran")
    assert server.close() == [] and keys[0] == keys[1] != keys[2]


def test_what_the_provider_may_have_forgotten(tmp_path: pathlib.Path) -> None:
    read = {"expect": {"method": "GET", "path": "/v1/checks/chk_1"}, "body": "allow"}
    journal = SQLiteJournal(tmp_path / "j")
    server = Server([ALLOW])
    with pytest.raises(spendgate.InDoubt):
        with gate(server, tmp_path).check(**ACTION, provider_key=True):
            raise RuntimeError("lost")
    assert server.close() == []
    for began, repeated in ((25.0, False), (23.0, True)):
        assert journal.move("order-1", "begun", at=time.time() - began * 3600)
        server = Server([REPLAY, read, REPORT] if repeated else [REPLAY, read])
        ran = ""
        try:
            with gate(server, tmp_path).check(**ACTION, provider_key=True) as c:
                ran = c.check_id
        except spendgate.InDoubt:
            assert not repeated
        assert server.close() == [] and ran == ("chk_1" if repeated else "")


def test_with_checks_first(tmp_path: pathlib.Path) -> None:
    """A blocking check() asks before it reads the journal: if the service forgot the key, the new check is given back."""
    server = Server([ALLOW, REPORT])
    with gate(server, tmp_path).check(**ACTION) as c:
        assert c.result and c.result.allowed and c.check_id == "chk_1"
    assert server.close() == []
    expect = {"method": "POST", "path": "/v1/checks/chk_2/outcome", "body": {"status": "voided", "note": "*"}}
    voided = {**REPORT, "expect": expect}
    server = Server([REPLAY, {**ALLOW, "change": {"check_id": "chk_2"}}, voided])
    for _ in range(2):
        with pytest.raises(spendgate.AlreadyExecuted) as over:
            with gate(server, tmp_path).check(**ACTION):
                raise AssertionError("it ran twice")
        assert over.value.check_id == "chk_1"
    assert server.close() == []
    # A process with another journal asked for this check, and may be carrying it out.
    server = Server([{**REPLAY, "change": {"check_id": "chk_3"}}])
    with pytest.raises(spendgate.AlreadyExecuted):
        with gate(server, tmp_path).check(**ACTION):
            raise AssertionError("it ran twice")
    assert server.close() == []


def test_what_a_body_says(tmp_path: pathlib.Path) -> None:
    failed, less = (
        {**REPORT, "expect": {**REPORT["expect"], "body": body}}
        for body in ({"status": "failed", "note": "declined"}, {"status": "executed", "reference": "r", "amount": "1.10"})
    )
    server = Server([ALLOW, failed, ALLOW, less])
    with gate(server, tmp_path).check(**ACTION) as c:
        c.failed("declined")
    with gate(server, tmp_path).check(**ANOTHER) as c:
        c.executed(reference="r", amount=Decimal("1.10"))
    assert server.close() == []


def test_what_an_older_journal_has(tmp_path: pathlib.Path) -> None:
    """If the whole end cannot be sent, its status is reported."""
    journal = MemoryJournal()
    journal.add(Entry("k", "hash", state="ended", check_id="chk_1", status="executed", amount="1.10", reference="a\ud800b"))
    server = Server([{**REPORT, "expect": {**REPORT["expect"], "body": {"status": "executed", "amount": "1.10"}}}])
    client = Spendgate(server.url, "key", journal=journal, redeem=False)
    assert client.resume() == [] and journal.unfinished() == [] and server.close() == []


def test_what_ends_later(tmp_path: pathlib.Path) -> None:
    """A body that returns a coroutine or generator is in doubt, and the returned object never runs."""
    ran: list[str] = []

    async def later() -> None:
        ran.append("coroutine")

    def pieces() -> Iterator[str]:
        ran.append("generator")
        yield ""

    results: list[Callable[[], object]] = [later, pieces, concurrent.futures.Future]
    server = Server([ALLOW] * len(results))
    client = gate(server, tmp_path, agent_id="a", policy_id="p")
    for number, result in enumerate(results):
        guarding: Any = client.guard(
            "refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="c", failed_on=(Exception,)
        )
        guarded = guarding(lambda order: result())
        with pytest.raises(spendgate.InDoubt, match="ends later than its call: coroutines are guarded by AsyncSpendgate"):
            guarded(str(number))
    assert ran == [] and server.close() == []

    class Called:
        async def __call__(self, order: str) -> None:
            ran.append("object")

    with pytest.raises(TypeError, match="coroutine"):
        client.guard("refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="c")(Called())


def test_what_only_asked(tmp_path: pathlib.Path) -> None:
    """An allow that check() got belongs to its journal, even after a restart; for another journal its replay is in doubt."""
    other = tmp_path / "other"
    other.mkdir()
    server = Server([ALLOW, REPLAY, REPLAY, REPORT])
    assert gate(server, tmp_path).check(**ACTION).allowed
    with pytest.raises(spendgate.InDoubt):
        with gate(server, other).check(**ACTION):
            raise AssertionError("it ran")
    with gate(server, tmp_path).check(**ACTION) as c:
        assert c.check_id == "chk_1"
    assert server.close() == []


def test_who_made_the_check_acts(tmp_path: pathlib.Path) -> None:
    """Another process with this journal that gets a replay doubts: it cannot know who got the first answer."""
    server = Server([ALLOW, REPLAY, REPORT])

    class Slow(SQLiteJournal):
        def move(self, key: str, was: Any, /, **changes: Any) -> bool:
            if was == "asked" and changes.get("state") == "begun":
                with pytest.raises(spendgate.InDoubt), gate(server, tmp_path).check(**ACTION):
                    raise AssertionError("it ran")
            return super().move(key, was, **changes)

    client = Spendgate(server.url, "key", journal=Slow(tmp_path / "j"), redeem=False)

    @client.guard("refund", key=lambda: "order-1", **MEMBERS, reference=str)
    def pay(check_id: str = "") -> str:
        return check_id

    assert pay() == "chk_1"
    assert server.close() == []


def test_a_journal_that_fails_after_the_body(tmp_path: pathlib.Path) -> None:
    """The service is told, and the caller gets the result."""

    class Full(MemoryJournal):
        def move(self, key: str, was: Any, /, **changes: Any) -> bool:
            if was != "asked":
                raise OSError("no space left")
            return super().move(key, was, **changes)

    server = Server([ALLOW, REPORT])
    client = Spendgate(server.url, "key", journal=Full(), redeem=False, agent_id="a", policy_id="p")

    @client.guard("refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="c")
    def pay(order: str) -> int:
        return 7

    assert pay("1") == 7
    assert server.close() == []


def test_misuse(tmp_path: pathlib.Path) -> None:
    client = gate(None, tmp_path, agent_id="a", policy_id="p")

    def pay(order: str, amount: Decimal, currency: str, counterparty: str) -> None:
        raise AssertionError("it ran")

    async def later(order: str) -> None:
        raise AssertionError("it ran")

    def pieces(order: str) -> Iterator[str]:
        yield order

    with pytest.raises(TypeError, match="name the call's arguments"):
        client.guard("refund", key="order")(pay)
    with pytest.raises(TypeError, match="failed_on"):
        client.guard("refund", key="{order}", failed_on=[ValueError])(pay)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="check_id"):
        client.guard("refund", key="{order}", provider_key=True)(pay)
    with pytest.raises(TypeError, match="coroutine"):
        client.guard("refund", key="{order}")(later)
    with pytest.raises(TypeError, match="coroutine"):
        AsyncSpendgate("http://x").guard("refund", key="{order}")(pay)
    with pytest.raises(TypeError, match="generator"):
        client.guard("refund", key="{order}")(pieces)
    guarded = client.guard("refund", key="{order}")(pay)
    with pytest.raises(TypeError, match=r"float: write Decimal\('19.9'\)"):
        guarded("1", 19.9, "USD", "c")  # type: ignore[arg-type]
    for amount, currency, fault in (("0", "USD", "is 0"), ("1.005", "usd", "2 decimal"), ("1.5", "JPY", "0 decimal"), ("1.0005", "KWD", "3")):
        with pytest.raises(ValueError, match=fault):
            guarded("1", Decimal(amount), currency, "c")
    with pytest.raises(ValueError, match="forgotten"):
        SQLiteJournal(":memory:")
    with pytest.raises(ValueError, match="/v1"):
        Spendgate("http://x/v1/")
    with pytest.raises(TypeError, match="idempotency key"):
        guarded(" ", Decimal(1), "USD", "c")
    with pytest.raises(TypeError, match="no argument invoice"):
        client.guard("refund", key="{invoice}")(pay)
    with pytest.raises(TypeError, match="no argument odrer"):
        client.guard("refund", key="{order}", reason_text="of {odrer.line[0]}")(pay)
    with pytest.raises(TypeError, match="argument"):
        guarded("1")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs a journal"):
        Spendgate("http://x", agent_id="a", policy_id="p", redeem=False).guard("refund", key="{order}")(pay)("1", Decimal(1), "USD", "c")
    assert str(inspect.signature(guarded)) == str(inspect.signature(pay)) and guarded.__name__ == "pay"


def test_nothing_shows_a_key() -> None:
    key, admin = "svc_live_secret", "admin-secret"
    client = Spendgate("http://127.0.0.1:9", key, admin_key=admin, attempts=1)
    texts = [repr(client), str(client), repr(client.within(1))]
    calls: list[Callable[[], object]] = [client.health, client.self_key, lambda: list(client.keys())]
    for call in calls:
        with pytest.raises(spendgate.SpendgateError) as error:
            call()
        texts += [str(error.value), repr(error.value)]
    for wrong in ((key + "\n", ""), ("", admin + "\x7f")):
        with pytest.raises(ValueError) as refused:
            Spendgate("http://x", wrong[0], admin_key=wrong[1])
        texts.append(str(refused.value))
    assert not [text for text in texts if key in text or admin in text]
    for address in ("", "localhost:8080", "ftp://host", "http://", "http://host?x=1", "http://u:p@host"):
        with pytest.raises(ValueError):
            Spendgate(address)


def test_traces() -> None:
    parent = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    assert Spendgate("http://x", trace=lambda: (parent, "a=b")).identify(False)["traceparent"] == parent
    assert "traceparent" not in Spendgate("http://x", trace=lambda: ("00-x", "")).identify(False)
