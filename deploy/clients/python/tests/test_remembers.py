"""What a guard remembers of the service's answers and of payments."""

from __future__ import annotations

import asyncio
import datetime
import enum
import logging
import pathlib
import re
import shutil
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Any

import pytest
from scripted import Server
from test_adapters import ALLOW, REPORT
from test_guard import ACTION, MEMBERS, REPLAY, gate
from test_mistakes import READ

import spendgate
from spendgate import AsyncSpendgate, Entry, MemoryJournal, Spendgate, SQLiteJournal
from spendgate.tools import explain

NEW: dict[str, Any] = {**ALLOW, "change": {"check_id": "chk_2"}}
OTHER: dict[str, Any] = {**REPLAY, "headers": [["Idempotent-Replayed", "true"], ["First-Request", "other"]]}
VOIDED: dict[str, Any] = {
    **REPORT, "expect": {"method": "POST", "path": "/v1/checks/chk_2/outcome", "body": {"status": "voided", "note": "*"}},
}
SELF: dict[str, Any] = {"expect": {"method": "GET", "path": "/v1/keys/self"}, "body": "key"}
OUT_OF_ORDER: dict[str, Any] = {
    "status": 500, "body": {"error": {"code": "internal_error", "message": "the store does not answer", "request_id": "req_1"}},
}


def test_power_that_is_lost(tmp_path: pathlib.Path) -> None:
    """A rollback journal that reappears, because the directory was not written, would undo the file's contents."""
    journal = SQLiteJournal(tmp_path / "j")
    assert journal._connect().execute("PRAGMA synchronous").fetchone()[0] == 3
    strace, trace = shutil.which("strace"), tmp_path / "trace"
    program = "import sys; from spendgate import Entry, SQLiteJournal; SQLiteJournal(sys.argv[1]).add(Entry('k', 'h'))"
    python = [sys.executable, "-c", program, str(tmp_path / "j")]
    if strace is None or subprocess.run([strace, "-o", trace, "true"], capture_output=True).returncode:
        return
    environment = {"PYTHONPATH": str(pathlib.Path(spendgate.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([strace, "-f", "-y", "-e", "trace=unlink,fsync,fdatasync", "-o", trace, *python], check=True, env=environment)
    calls = trace.read_text().splitlines()
    last = max(number for number, call in enumerate(calls) if "unlink(" in call and "j-journal" in call)
    assert any(re.search(rf"f(data)?sync\(\d+<{re.escape(str(tmp_path))}>", call) for call in calls[last + 1 :]), calls


@pytest.mark.parametrize(
    ("told", "error"),
    [("Outcome: executed", spendgate.AlreadyExecuted), ("Redeemed: rdm_1;in_doubt", spendgate.InDoubt), ("", spendgate.InDoubt)],
)
def test_with_remembers_what_it_was_told(told: str, error: type[spendgate.SpendgateError], tmp_path: pathlib.Path) -> None:
    """The service has forgotten the key, or has it for another action: the new check is given back."""
    headers = [*OTHER["headers"], *([told.split(": ")] if told else [])]
    read = [] if error is spendgate.AlreadyExecuted else [READ]
    server = Server([{**ALLOW, "headers": headers}, NEW, VOIDED, *read])
    for _ in range(2):
        with pytest.raises(error) as raised, gate(server, tmp_path).check(**ACTION):
            raise AssertionError("it ran")
        assert getattr(raised.value, "check_id") == "chk_1"
    assert server.close() == []


def test_doubted_under_another_check(tmp_path: pathlib.Path) -> None:
    """Between the answer and the beginning of the body another process doubts an earlier check."""

    class Doubting(SQLiteJournal):
        def move(self, key: str, was: Any, /, **changes: Any) -> bool:
            if was == "asked" and changes.get("state") == "begun":
                assert super().move(key, "asked", state="doubted", check_id="chk_1")
            return super().move(key, was, **changes)

    server = Server([NEW, VOIDED, READ])
    client = Spendgate(server.url, "key", journal=Doubting(tmp_path / "j"), redeem=False)
    with pytest.raises(spendgate.InDoubt) as doubt, client.check(**ACTION):
        raise AssertionError("it ran")
    assert doubt.value.check_id == "chk_1" and server.close() == []


@pytest.mark.parametrize("redeem", [None, True])
def test_a_gateway_without_a_journal(redeem: bool | None) -> None:
    """Without a principal a new API key is somebody else, so the service would not know what was carried out."""
    redeemed = {"expect": {"method": "POST", "path": "/v1/checks/chk_1/redeem"}, "body": "redemption"}
    for principal in (None, "refunds"):
        answers = [] if principal is None else [ALLOW, redeemed, REPORT]
        server = Server([{**SELF, "change": {"principal": principal}}, *answers])
        client = Spendgate(server.url, "key", redeem=redeem, agent_id="a", policy_id="p")
        ran: list[str] = []

        @client.guard("refund", key="{order}", amount=lambda: "1", currency="USD", counterparty="c")
        def pay(order: str) -> None:
            ran.append(order)

        if principal is None:
            with pytest.raises(TypeError, match="principal"):
                pay("1")
        else:
            pay("1")
        assert ran == ([] if principal is None else ["1"]) and server.close() == []


def test_what_changes_does_not_run(tmp_path: pathlib.Path) -> None:
    order = {"id": "7", "amount": "5", "customer": "c"}
    server = Server([ALLOW, {**VOIDED, "expect": {**VOIDED["expect"], "path": REPORT["expect"]["path"]}}])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    @client.guard(
        "refund", key=lambda order: f"refund-{order['id']}", amount=lambda order: order["amount"],
        currency="USD", counterparty=lambda order: order["customer"],
    )
    def refund(order: dict[str, str]) -> None:
        raise AssertionError("it ran")

    server.then = lambda: order.update(amount="5000", customer="mallory")
    with pytest.raises(spendgate.KeyReused, match="changed"):
        refund(order)
    assert client.resume() == [] and server.close() == []


class Key(enum.Enum):
    RED = 1


class Order:
    id = "1"


@pytest.mark.parametrize("value", ["a", 5, Decimal("1.5"), uuid.UUID(int=5), datetime.date(2026, 1, 2), Key.RED])
def test_fields_of_a_key(value: Any, tmp_path: pathlib.Path) -> None:
    report = {**REPORT, "expect": {**REPORT["expect"], "body": {"status": "executed"}}}
    asked = {**ALLOW, "expect": {**ALLOW["expect"], "contains": [f'"idempotency_key":"refund-{value}"']}}
    server = Server([asked, report])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    @client.guard("refund", key="refund-{order}", amount="1", currency="USD", counterparty="c")
    def pay(order: Any) -> None:
        pass

    pay(value)
    assert server.close() == []


@pytest.mark.parametrize("key", ["refund-{order}", "refund-{order!r}", "{order.owner}", lambda order: f"refund-{order}"])
@pytest.mark.parametrize("async_", [False, True])
def test_objects_in_a_key(key: Any, async_: bool, tmp_path: pathlib.Path) -> None:
    """The text of an object differs each time, so the action would be paid again."""
    kind: Any = AsyncSpendgate if async_ else Spendgate
    client = kind("http://127.0.0.1:9", "key", journal=tmp_path / "j", redeem=False, agent_id="a", policy_id="p")
    guarding = client.guard("refund", key=key, amount="1", currency="USD", counterparty="c")
    order = Order()
    setattr(order, "owner", Order())
    if async_:

        async def pay_soon(order: Order) -> None:
            raise AssertionError("it ran")

        with pytest.raises(TypeError, match="order|object"):
            asyncio.run(guarding(pay_soon)(order))
        return

    def pay(order: Order) -> None:
        raise AssertionError("it ran")

    with pytest.raises(TypeError, match="order|object"):
        guarding(pay)(order)
    for nothing in (None, 1.5, b"1", ["1"]):
        if isinstance(key, str) and "owner" not in key:
            with pytest.raises(TypeError, match="order"):
                guarding(pay)(nothing)
    with pytest.raises(TypeError, match="object"), client.check(**{**ACTION, "idempotency_key": f"refund-{order}"}):
        raise AssertionError("it ran")


@pytest.mark.parametrize("amount", ["19.90 USD", 19.9, "-1", 10**5000], ids=["text", "float", "negative", "long"])
def test_an_amount_that_cannot_be_reported(amount: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """The money was moved, so this is no error of the body, and nothing is given back."""
    server = Server([ALLOW, {**REPORT, "expect": {**REPORT["expect"], "body": {"status": "executed", "reference": "psp-1"}}}])
    with caplog.at_level(logging.WARNING), gate(server, tmp_path).check(**ACTION, failed_on=(ValueError, TypeError)) as c:
        c.executed(reference="psp-1", amount=amount)
    assert "amount that cannot be reported" in caplog.text and server.close() == []
    wrong: list[Any] = [10**5000, b"r"]
    for reference in wrong:
        c.executed(reference=reference)
        assert c.end["reference"] == ""


def test_errors_of_the_guard_do_not_say_that_nothing_was_moved(tmp_path: pathlib.Path) -> None:
    """A body may call another guarded function and raise its errors, and KeyReused is a ValueError."""
    for failed_on, raised, failed in (
        ((ValueError,), spendgate.KeyReused("k"), False),
        ((Exception,), spendgate.InDoubt("k", "chk_9", "why"), False),
        ((spendgate.SpendgateError,), spendgate.InDoubt("k", "chk_9", "why"), False),
        ((spendgate.KeyReused,), spendgate.KeyReused("k"), True),
        ((ValueError,), ValueError("declined"), True),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        report = {**REPORT, "expect": {**REPORT["expect"], "body": {"status": "failed"}}}
        server = Server([ALLOW, report] if failed else [ALLOW])
        with pytest.raises(type(raised) if failed else spendgate.InDoubt) as error:
            with gate(server, folder).check(**ACTION, failed_on=failed_on):
                raise raised
        assert (error.value is raised) == failed and server.close() == []


def test_what_may_have_been_carried_out_is_said_to_be(tmp_path: pathlib.Path) -> None:
    """A blocking check() asks first: if it gets no answer, a body may have begun before."""
    server = Server([ALLOW, {**ALLOW, **OUT_OF_ORDER}, {**READ, **OUT_OF_ORDER}])
    with pytest.raises(spendgate.InDoubt), gate(server, tmp_path, attempts=1).check(**ACTION):
        raise RuntimeError("lost")
    client = gate(server, tmp_path, attempts=1, agent_id="a", policy_id="p")
    with pytest.raises(spendgate.Unanswered) as first, client.check(**ACTION):
        raise AssertionError("it ran")

    @client.guard("refund", key=lambda: "order-1", **MEMBERS)
    def pay() -> None:
        raise AssertionError("it ran")

    with pytest.raises(spendgate.Unanswered) as second:
        pay()
    assert server.close() == []
    with pytest.raises(spendgate.Unanswered) as third:
        gate(None, tmp_path, attempts=1).check(**ACTION)
    for unanswered in (first.value, second.value, third.value):
        assert isinstance(unanswered, spendgate.InDoubt) and unanswered.check_id == "chk_1"
        text = explain(unanswered)
        assert text.startswith("Not carried out now.") and "may have" in text and "is safe" not in text


def test_what_was_carried_out_is_said_to_be(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, REPORT])
    with gate(server, tmp_path).check(**ACTION) as c:
        c.executed(reference="psp-1")
    assert server.close() == []
    with pytest.raises(spendgate.AlreadyExecuted) as over:
        gate(None, tmp_path, attempts=1).check(**ACTION)
    assert over.value.reference == "psp-1"


def test_a_journal_that_does_not_take_what_was_told() -> None:
    """The caller learns that the key is over even if the journal cannot note it."""

    class Full(MemoryJournal):
        def move(self, key: str, was: Any, /, **changes: Any) -> bool:
            raise OSError("no space left")

    server = Server([{**REPLAY, "headers": [*REPLAY["headers"], ["Outcome", "executed"]]}])
    client = Spendgate(server.url, "key", journal=Full(), redeem=False)
    with pytest.raises(spendgate.AlreadyExecuted), client.check(**ACTION):
        raise AssertionError("it ran")
    assert server.close() == []


@pytest.mark.parametrize("async_", [False, True])
@pytest.mark.parametrize("member", ["key", "counterparty"])
def test_an_action_that_is_another_each_time_is_not_asked_for(member: str, async_: bool, tmp_path: pathlib.Path) -> None:
    """Each check would be voided, and its key be over."""
    members: dict[str, Any] = {"key": "order-{order}", "counterparty": "c", member: lambda order: f"{order}-{uuid.uuid4()}"}
    server = Server([])
    kind: Any = AsyncSpendgate if async_ else Spendgate
    client = kind(server.url, "key", journal=tmp_path / "j", redeem=False, agent_id="a", policy_id="p")
    guarding = client.guard("refund", amount="1", currency="USD", **members)

    def pay(order: str) -> None:
        raise AssertionError("it ran")

    async def pay_soon(order: str) -> None:
        raise AssertionError("it ran")

    with pytest.raises(TypeError, match="same twice"):
        if async_:
            asyncio.run(guarding(pay_soon)("1"))
        else:
            guarding(pay)("1")
    assert server.close() == []


@pytest.mark.parametrize("async_", [False, True])
@pytest.mark.parametrize("redeem", [False, True])
def test_a_function_of_the_action_that_fails_later(redeem: bool, async_: bool, tmp_path: pathlib.Path) -> None:
    """The action did not change, so the next call continues."""
    redeemed = [{"expect": {"method": "POST", "path": "/v1/checks/chk_1/redeem"}, "body": "redemption"}] if redeem else []
    server = Server([ALLOW, *redeemed, REPLAY, *redeemed, REPORT])
    fails: list[bool] = []
    server.then = lambda: fails.append(True)
    kind: Any = AsyncSpendgate if async_ else Spendgate
    client = kind(server.url, "key", journal=tmp_path / "j", redeem=redeem, agent_id="a", policy_id="p")

    def customer(order: str) -> str:
        if fails:
            raise ConnectionError("no customer now")
        return "c"

    guarding = client.guard("refund", key="{order}", amount="1", currency="USD", counterparty=customer, reference=str)

    def pay(order: str) -> str:
        return "psp-1"

    async def pay_soon(order: str) -> str:
        return "psp-1"

    def call() -> Any:
        return asyncio.run(guarding(pay_soon)("1")) if async_ else guarding(pay)("1")

    with pytest.raises(ConnectionError, match="no customer now"):
        call()
    server.then = lambda: None
    fails.clear()
    assert call() == "psp-1" and server.close() == []


def test_a_function_that_fails_before_its_action_is_repeated(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, READ])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")
    fails: list[bool] = []

    def customer(order: str) -> str:
        if fails:
            raise ConnectionError("no customer now")
        return "c"

    @client.guard("refund", key="{order}", amount="1", currency="USD", counterparty=customer, provider_key=True)
    def pay(order: str, *, check_id: str = "") -> None:
        server.then = lambda: fails.append(True)
        raise RuntimeError("lost")

    with pytest.raises(spendgate.InDoubt, match="raised RuntimeError"):
        pay("1")
    with pytest.raises(spendgate.InDoubt, match="has begun before") as doubt:
        pay("1")
    assert isinstance(doubt.value.__cause__, ConnectionError)
    assert doubt.value.check_id == "chk_1" and server.close() == []


def test_no_new_attempt_is_proposed_while_the_service_cannot_say(tmp_path: pathlib.Path) -> None:
    failed = {**REPORT, "expect": {**REPORT["expect"], "body": {"status": "failed"}}}
    executed = {**READ, "headers": [["Outcome", "executed"]]}
    lost = [{**of, **OUT_OF_ORDER} for of in (ALLOW, READ)]
    still = {**READ, "headers": [["Outcome", "failed"]]}
    server = Server([ALLOW, failed, lost[0], REPLAY, lost[1], REPLAY, still, REPLAY, executed, REPLAY])
    kinds: list[tuple[type[spendgate.SpendgateError], bool]] = [
        (spendgate.AlreadyReported, False), (spendgate.AlreadyReported, False),
        (spendgate.AlreadyReported, True), (spendgate.AlreadyExecuted, True), (spendgate.AlreadyExecuted, True),
    ]
    with gate(server, tmp_path).check(**ACTION) as c:
        c.failed()
    for kind, new in kinds:
        with pytest.raises(kind) as over, gate(server, tmp_path, attempts=1).check(**ACTION):
            raise AssertionError("it ran")
        assert type(over.value) is kind and ("another idempotency_key" in str(over.value)) == new, over.value
    assert server.close() == []


@pytest.mark.parametrize("value", ["jean.null@example.com", "null", "NaN", datetime.time(1, 2), datetime.datetime(2026, 1, 2)])
def test_legitimate_keys(value: Any, tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, REPORT] * 2)
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    def pay(order: Any) -> str:
        return "psp-1"

    keys: list[Any] = ["refund-{order}", lambda order: f"refund-{order}-7"]
    for key in keys:
        assert client.guard("refund", key=key, amount="1", currency="USD", counterparty="c", reference=str)(pay)(value) == "psp-1"
    assert server.close() == []


def test_a_field_that_is_made_text_on_purpose(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, REPORT])
    client = gate(server, tmp_path, agent_id="a", policy_id="p")

    @client.guard("refund", key="refund-{order!s}", amount="1", currency="USD", counterparty="c", reference=str)
    def pay(order: Any) -> str:
        return "psp-1"

    assert pay(1.5) == "psp-1" and server.close() == []


@pytest.mark.parametrize(("key", "value"), [
    ("{order}", "null"), ("{order}", None), ("r-{order}", True), ("r-{order}", None), ("r-{order!s}", Order()),
    (lambda order: f"r-{order}", None), (lambda order: "undefined", ""), (lambda order: f"r:{order}", float("nan")),
])
def test_keys_of_nothing(key: Any, value: Any, tmp_path: pathlib.Path) -> None:
    """The model is told, and entries of the journal are continued."""
    client = gate(None, tmp_path, agent_id="a", policy_id="p")

    def pay(order: Any) -> None:
        raise AssertionError("it ran")

    with pytest.raises(spendgate.BadKey, match="names no action|of the key is a") as bad:
        client.guard("refund", key=key, amount="1", currency="USD", counterparty="c")(pay)(value)
    assert isinstance(bad.value, spendgate.SpendgateError) and isinstance(bad.value, TypeError)
    assert explain(bad.value).startswith("Not carried out. ")


def test_a_bad_key_that_the_journal_has(tmp_path: pathlib.Path) -> None:
    journal = SQLiteJournal(tmp_path / "j")
    journal.add(Entry("r-True", "h"))
    client = gate(None, tmp_path, agent_id="a", policy_id="p")

    @client.guard("refund", key="r-{order}", amount="1", currency="USD", counterparty="c")
    def pay(order: Any) -> None:
        raise AssertionError("it ran")

    with pytest.raises(spendgate.KeyReused):
        pay(True)


@pytest.mark.parametrize("told", [[ALLOW, REPORT, REPLAY], [OTHER, OTHER, READ], [{**ALLOW, "headers": [["Outcome", "executed"]]}] * 2])
def test_what_is_refused_meanwhile_has_its_action(told: list[dict[str, Any]], tmp_path: pathlib.Path) -> None:
    """Another process's request is refused because its API key was deactivated, while this one is answered."""

    class Refused(SQLiteJournal):
        def move(self, key: str, was: Any, /, **changes: Any) -> bool:
            if was == "asked" and changes.get("state") not in (None, "asked"):
                super().move(key, "asked", action="")
            return super().move(key, was, **changes)

    server, raised, ran = Server(told), [], 0
    guarding = Spendgate(server.url, "key", journal=Refused(tmp_path / "j"), redeem=False)
    for amount in ("42.50", "42.50", "1"):
        action: dict[str, Any] = {**ACTION, "amount": amount}
        try:
            with guarding.check(**action):
                ran += 1
        except spendgate.SpendgateError as error:
            raised.append(type(error))
    over = spendgate.InDoubt if READ in told else spendgate.AlreadyExecuted
    assert raised == [over] * (1 if ran else 2) + [spendgate.KeyReused] and ran == (told[0] is ALLOW)
    assert server.close() == []
