"""The guard beyond its cases: what authors of agents do around it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import decimal
import enum
import functools
import inspect
import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from scripted import GUARD, GuardServer, Server
from test_adapters import REPORT, F, gate, playing, typed

import spendgate
from spendgate import AsyncSpendgate, Spendgate
from spendgate.guarded import takes_permit

EXECUTION = GUARD["cases"][0]["calls"][0]["ran"]
DOUBT: dict[str, Any] = {"request": "in_doubt", "send": {"redemption_id": "rdm_1"}, "answer": "doubted"}
UNNAMED: dict[str, Any] = {**REPORT, "send": {"status": "executed", "redemption_id": "rdm_1"}}


def guarding(client: Any, **more: Any) -> Callable[[F], F]:
    members = {"payment_key": "{order}", "amount": lambda: "42.50", "currency": lambda: "USD", "counterparty": lambda: "c", **more}
    return typed(client.guard("refund", **members))


def calling(client: Any, body: Callable[..., Any], **more: Any) -> Any:
    """Guards what has no types."""
    guarded: Any = guarding(client, **more)(body)
    return guarded


def asking(*exchanges: dict[str, Any], answer: str = "proceed") -> GuardServer:
    return GuardServer({"exchanges": [{"request": "ask", "answer": answer}, *exchanges]})


def test_functions_of_classes() -> None:
    server = playing(*["proceed"] * 3)
    paying = guarding(gate(server), reference=lambda result: "psp-1")

    class Shop:
        @paying
        def pay(self, order: str, execution_id: str = "") -> str:
            return type(self).__name__ + execution_id

        @staticmethod
        @paying
        def pay_out(order: str, check_id: str = "") -> str:
            return check_id

        @classmethod
        @paying
        def pay_for(cls, order: str, *, permit: Any = None) -> str:
            return cls.__name__ + str(permit.execution_id)

    assert [Shop().pay("order-1"), Shop().pay_out("order-1"), Shop().pay_for("order-1")] == [f"Shop{EXECUTION}", "chk_1", f"Shop{EXECUTION}"]
    assert str(inspect.signature(Shop().pay)) == "(order: 'str') -> 'str'" and Shop.pay.__name__ == "pay" and server.close() == []
    for above in (staticmethod, classmethod):
        with pytest.raises(TypeError, match="comes below"):
            paying(above(Shop.pay))


def test_what_ends_later() -> None:
    """A body that returns a coroutine or generator is in doubt, and the returned object never runs."""
    ran: list[str] = []

    async def later() -> None:
        ran.append("coroutine")

    def pieces() -> Iterator[str]:
        ran.append("generator")
        yield ""

    results: list[Callable[[], object]] = [later, pieces, concurrent.futures.Future]
    for result in results:
        server = asking(DOUBT)
        with pytest.raises(spendgate.InDoubt, match="ends later than its call"):
            calling(gate(server), lambda order, result=result: result(), failed_if=Exception)("order-1")
        assert server.close() == []
    assert ran == []

    class Called:
        async def __call__(self, order: str) -> None:
            ran.append("object")

    with pytest.raises(TypeError, match="coroutine"):
        guarding(gate(None))(Called())


@pytest.mark.parametrize("error", [spendgate.Blocked, spendgate.InDoubt])
def test_errors_of_the_guard_do_not_say_that_nothing_was_moved(error: type[Exception]) -> None:
    """A body that calls another guard may have moved something before."""
    server = asking(DOUBT)

    @guarding(gate(server), failed_if=Exception if error is spendgate.Blocked else error)
    def pay(order: str) -> None:
        raise error.__new__(error)

    with pytest.raises(spendgate.InDoubt, match="its body raised"):
        pay("order-1")
    assert server.close() == []


def test_a_body_that_said_it_moved_money_did_not_fail() -> None:
    server = asking(DOUBT)

    @guarding(gate(server), failed_if=ZeroDivisionError)
    def pay(order: str, permit: Any = None) -> None:
        permit.executed(reference="psp-1")
        raise ZeroDivisionError

    with pytest.raises(spendgate.InDoubt):
        pay("order-1")
    assert server.close() == []


async def says_later(result: Any) -> bool:
    return False


class Answer:
    def __init__(self, **members: bool) -> None:
        vars(self).update(members)


@pytest.mark.parametrize("answer", [Answer(isError=True), Answer(ok=False), httpx.Response(402)])
@pytest.mark.parametrize("failed_if", [lambda result: result["status"] == "declined", says_later, (KeyError, says_later), None])
def test_results_that_nobody_understands(failed_if: Any, answer: Any) -> None:
    server = asking(DOUBT)
    with pytest.raises(spendgate.InDoubt):
        calling(gate(server), lambda order: answer, **({"failed_if": failed_if} if failed_if else {}))("order-1")
    assert server.close() == []


def delivered(client: Any) -> bool:
    for _ in range(500):
        if not client.undelivered:
            break
        time.sleep(0.01)
    return not client.undelivered


@pytest.mark.parametrize("amount", ["x", Decimal("NaN"), 1.5, -1])
def test_an_amount_that_cannot_be_reported(amount: Any) -> None:
    server = asking(REPORT)
    gate(server).pay(lambda permit: permit.executed(reference="psp-1", amount=amount), **server.asked)
    assert server.close() == []


def test_a_function_of_the_action_that_fails_later() -> None:
    """Nothing was carried out, and that is reported."""
    fails: list[None] = []

    def counterparty() -> str:
        if fails:
            raise KeyError("gone")
        return "c"

    server = asking({**REPORT, "send": {"status": "voided", "redemption_id": "rdm_1"}})
    server.then = lambda: fails.append(None)
    with pytest.raises(KeyError, match="gone"):
        calling(gate(server), lambda order: 1 / 0, counterparty=counterparty)("order-1")
    assert server.close() == []


def test_an_action_that_is_another_each_time_is_not_asked_for() -> None:
    for member in ("payment_key", "counterparty", "metadata"):
        make: Callable[[], Any] = lambda: {"id": str(uuid.uuid4())} if member == "metadata" else str(uuid.uuid4())
        with pytest.raises(TypeError, match="not the same twice"):
            calling(gate(None), lambda order: None, **{member: make})("order-1")


class Kind(enum.Enum):
    A = "a"


@pytest.mark.parametrize("value", ["order-1", 1, Decimal("1.5"), uuid.UUID(int=1), decimal.Decimal(1), Kind.A, "none-1"])
def test_legitimate_keys(value: Any) -> None:
    with pytest.raises(spendgate.Unanswered):  # so it was asked for
        calling(gate(None).within(0.05), lambda order: None)(value)


@pytest.mark.parametrize("value", [None, object(), 1.5, True, ["1"]])
def test_keys_and_names_of_nothing(value: Any) -> None:
    """Each object would be a payment of its own, and a counterparty for rules and budgets; nobody would be one, too."""
    with pytest.raises(spendgate.BadKey, match="'order' is a"):
        calling(gate(None), lambda order: None, payment_key="order-{order}")(value)
    with pytest.raises(spendgate.BadKey):
        calling(gate(None), lambda order: None, payment_key=lambda order: f"order-{None if value is None else object()}")(value)
    with pytest.raises(TypeError, match=r"counterparty='\{order\}': 'order' is a"):
        calling(gate(None), lambda order: None, payment_key=lambda: "order-1", counterparty="{order}")(value)


@pytest.mark.parametrize("key", ["order-{order}", "{order}-refund", lambda order: f"order-{order}", lambda order: order.strip() + "-refund"])
@pytest.mark.parametrize("order", ["", " "])
def test_a_part_of_a_key_that_is_blank(order: str, key: Any) -> None:
    with pytest.raises(spendgate.BadKey, match="blank"):
        calling(gate(None), lambda order: None, payment_key=key)(order)


def test_a_blank_text_that_is_no_part_of_the_key() -> None:
    with pytest.raises(spendgate.Unanswered):  # so it was asked for
        calling(gate(None).within(0.05), lambda order: None, payment_key=lambda order: f"order-{order.strip() or 7}")("")


def test_wrong_uses() -> None:
    def pay(order: str, amount: Decimal, currency: str, counterparty: str) -> None:
        raise AssertionError("it ran")

    async def later(order: str) -> None:
        raise AssertionError("it ran")

    def pieces(order: str) -> Iterator[str]:
        yield order

    client: Any = gate(None)
    wrong: list[tuple[dict[str, Any], Any, str]] = [
        ({"payment_key": "order"}, pay, "name the call's arguments"),
        ({"payment_key": "{invoice}"}, pay, "no argument invoice"),
        ({"payment_key": "{order}", "reason_text": "of {odrer.line[0]}"}, pay, "no argument odrer"),
        ({"payment_key": "{order}", "failed_if": [ValueError]}, pay, "failed_if"),
        ({"payment_key": "{order}", "take_over": True}, pay, "parameter execution_id"),
        ({"payment_key": "{order}", "take_over_within_hours": 5}, pay, "without take_over"),
        ({"payment_key": "{order}"}, later, "coroutine"),
        ({"payment_key": "{order}"}, pieces, "generator"),
    ]
    for options, function, fault in wrong:
        with pytest.raises(TypeError, match=fault):
            client.guard("refund", **options)(function)
    with pytest.raises(TypeError, match="coroutine"):
        AsyncSpendgate("http://x").guard("refund", payment_key="{order}")(pay)
    guarded = client.guard("refund", payment_key="{order}")(pay)
    with pytest.raises(TypeError, match=r"float: write Decimal\('19.9'\)"):
        guarded("1", 19.9, "USD", "c")
    for amount, currency, fault in (("0", "USD", "is 0"), ("1.005", "usd", "2 decimal"), ("1.5", "JPY", "0 decimal"), ("1.0005", "KWD", "3")):
        with pytest.raises(ValueError, match=fault):
            guarded("1", Decimal(amount), currency, "c")
        with pytest.raises(ValueError, match=fault):
            client.pay(pay, "refund", payment_key="1", amount=amount, currency=currency, counterparty="c")
    for body, fault in ((lambda: None, "a permit"), (pay, "a permit"), (None, "callable"), (later, "coroutine")):
        with pytest.raises(TypeError, match=fault):
            client.pay(body, "refund", payment_key="1", amount="1", currency="USD", counterparty="c")
    takes_permit(functools.wraps(lambda: None)(lambda permit: permit))  # a body around a function without arguments
    with pytest.raises(TypeError, match="argument"):
        guarded("1")
    with pytest.raises(ValueError, match="/v1"):
        Spendgate("http://x/v1/")


def test_a_guard_says_which_key_it_needs() -> None:
    refused = {"request": "ask", "answer": "refused", "status": 403, "change": {"error": {"code": "forbidden"}}}
    server = GuardServer({"exchanges": [refused]})
    with pytest.raises(spendgate.APIError, match="checks:redeem, such as one of role gateway"):
        calling(gate(server), lambda order: None)("order-1")
    assert server.close() == []


def test_results_and_errors_are_copied() -> None:
    server = Server([{"expect": {"method": "POST", "path": "/v1/checks"}, "body": "allow"}])
    result = Spendgate(server.url, "key").check(**GUARD["action"])
    assert server.close() == []
    for again in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert type(again) is spendgate.Result and again.allowed and again.check_id == "chk_1"
    errors: list[spendgate.SpendgateError] = [spendgate.InDoubt("k", "chk_1", "why"), spendgate.NoAnswer("lost"), spendgate.Unanswered("k", "lost")]
    for answer in ("block", "waiting", "differs"):
        with pytest.raises(spendgate.SpendgateError) as raised:
            calling(gate(asking(answer=answer)), lambda order: None)("order-1")
        errors.append(raised.value)
    for error in errors:
        other = pickle.loads(pickle.dumps(error))
        assert type(other) is type(error) and str(other) == str(error) and vars(other).keys() == vars(error).keys()


def test_a_check_is_no_condition() -> None:
    server = Server([{"expect": {"method": "POST", "path": "/v1/checks"}, "body": "allow"}] * 2)
    with pytest.raises(TypeError, match="@gate.guard"):
        if Spendgate(server.url, "key").check(**GUARD["action"]):
            raise AssertionError("it ran")
    other = AsyncSpendgate(server.url, "key")
    with pytest.raises(TypeError, match="@gate.guard"):
        if other.check(**GUARD["action"]):
            raise AssertionError("it ran")

    async def ask() -> None:
        if await other.check(**GUARD["action"]):
            raise AssertionError("it ran")

    with pytest.raises(TypeError, match="@gate.guard"):
        asyncio.run(ask())
    assert server.close() == []


def test_a_program_that_rounds() -> None:
    """Amounts are exact, whatever the precision of the program's arithmetic."""
    server = GuardServer({"with": {"amount": "100.25"}, "exchanges": [{"request": "ask", "answer": "proceed"}, UNNAMED]})
    with decimal.localcontext(decimal.Context(prec=2)):
        calling(gate(server), lambda order: None, amount=lambda: Decimal("100.25"))("order-1")
    assert server.close() == []


def test_cancelled_when_its_body_has_ended() -> None:
    """The report is made in the background."""
    server = asking({**UNNAMED, "fail": "stall"}, UNNAMED)

    async def cancel() -> AsyncSpendgate:
        client: AsyncSpendgate = gate(server, AsyncSpendgate)
        ended = asyncio.Event()

        async def pay(order: str) -> None:
            ended.set()

        task = asyncio.create_task(guarding(client)(pay)("order-1"))
        await ended.wait()
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return client

    assert delivered(asyncio.run(cancel())) and server.close() == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_body_that_closes_the_client(fails: bool) -> None:
    """The report is made in the background; a doubt comes by itself."""
    server = asking(*([] if fails else [UNNAMED]))
    client = gate(server)

    def pay(order: str) -> None:
        client.close()
        if fails:
            raise OSError

    with contextlib.ExitStack() as expected:
        if fails:
            expected.enter_context(pytest.raises(spendgate.InDoubt))
        guarding(client)(pay)("order-1")
    assert delivered(client) and server.close() == []


def test_event_loops_of_their_own() -> None:
    server = playing("proceed", "proceed")
    client = gate(server, AsyncSpendgate)

    async def pay(order: str) -> str:
        return "psp-1"

    guarded = guarding(client, reference=str)(pay)
    assert [asyncio.run(guarded("order-1")) for _ in range(2)] == ["psp-1", "psp-1"] and server.close() == []


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
