"""Tools of guarded functions; the adapters and the sample with the libraries' published interfaces (tests/published)."""

from __future__ import annotations

import asyncio
import enum
import importlib.util
import pathlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, TypeVar, cast

import pytest
from langgraph.types import GraphInterrupt, Thread, interrupt
from scripted import GUARD, GuardServer
from temporalio import workflow

import spendgate
from agents import RunContextWrapper
from spendgate import AsyncSpendgate, Spendgate
from spendgate.langgraph import interrupting, structured_tool
from spendgate.openai_agents import guarded_tool
from spendgate.tools import Told, tool

REPORT: dict[str, Any] = {"request": "report", "send": {"status": "executed", "redemption_id": "rdm_1", "reference": "psp-1"}, "answer": "reported"}
ARGUMENTS: dict[str, Any] = {"order": "order-1", "amount": "42.50"}


def playing(*answers: str, **more: Any) -> GuardServer:
    """A server of the calls of refund(), each with one answer."""
    exchanges = []
    for answer in answers:
        exchanges += [{"request": "ask", "answer": answer}, *([REPORT] if answer == "proceed" else [])]
    return GuardServer({"exchanges": exchanges, **more})


def gate(server: GuardServer | None, kind: Any = Spendgate) -> Any:
    return kind(server.url if server else "http://127.0.0.1:9", GUARD["api_key"], agent_id="a", policy_id="p")


F = TypeVar("F", bound=Callable[..., Any])


def typed(decorator: Any) -> Callable[[F], F]:
    return cast(Callable[[F], F], decorator)


def refund(server: GuardServer | None, ran: list[str], async_: bool = False) -> Any:
    def pay(order: str, amount: Decimal, *, execution_id: str = "") -> str:
        """Pays an order back."""
        ran.append(order)
        return "psp-1"

    async def pay_soon(order: str, amount: Decimal, *, execution_id: str = "") -> str:
        """Pays an order back."""
        return pay(order, amount)

    client = gate(server, AsyncSpendgate if async_ else Spendgate)
    return client.guard("refund", payment_key="{order}", counterparty=lambda: "c", currency="USD", reference=str)(pay_soon if async_ else pay)


@pytest.mark.parametrize(("answer", "told"), [
    ("proceed", Told("executed", "psp-1", "psp-1")),
    ("executed", Told("executed", "Carried out before, as psp-0. It is not repeated.", "psp-0")),
    ("block", Told("refused", "Not carried out. too much. Ask for less.")),
    ("waiting", Told("pending", "Not carried out yet. people decide. Wait. Call again with exactly these arguments afterwards.", None, "apr_1")),
    ("denied", Told("denied", "Not carried out. people decide. Wait.", None, "apr_1")),
    ("expired", Told("expired", "Not carried out. people decide. Wait.", None, "apr_1")),
    ("escalated", Told("refused", "Not carried out. people decide. Wait.")),
    ("refused", Told("error", "Not carried out. validation_error: amount: too large (422, req_1)")),
    ("differs", Told("refused", "Not carried out. payment_differs: the payment differs in amount (409, req_1)")),
])
def test_a_tool_tells(answer: str, told: Told) -> None:
    for async_ in (False, True):
        server, ran = playing(answer), list[str]()
        made = tool(refund(server, ran, async_))
        assert (asyncio.run(made.call(ARGUMENTS)) if async_ else made.call(ARGUMENTS)) == told
        assert ran == (["order-1"] if answer == "proceed" else []) and server.close() == []


def test_a_tool_of_what_is_frozen() -> None:
    refused = {"request": "ask", "answer": "refused", "status": 409, "change": {"error": {"code": "frozen"}}}
    server = GuardServer({"exchanges": [refused, refused]})
    pay = refund(server, [])
    assert tool(pay).call(ARGUMENTS) == Told("refused", "Not carried out. frozen: amount: too large (409, req_1)")
    with pytest.raises(spendgate.Frozen):
        pay(**ARGUMENTS)
    assert server.close() == []


def test_a_tool_whose_amount_is_no_number() -> None:
    told = tool(refund(None, [])).call({**ARGUMENTS, "amount": "19,90"})
    assert told == Told("invalid", "Not carried out. amount: '19,90' is no number: write it as 1234.50")


def test_a_tool_of_what_is_in_progress() -> None:
    server = playing("redeemed")
    told = tool(refund(server, [])).call(ARGUMENTS)
    assert told.state == "in_doubt" and told.message.startswith("Not carried out now. 'order-1' is in progress: another call") and server.close() == []


def test_a_tool_whose_body_declines() -> None:
    class Declined(Exception):
        pass

    server = GuardServer({"exchanges": [{"request": "ask", "answer": "proceed"}, {**REPORT, "send": {"status": "failed", "redemption_id": "rdm_1"}}]})

    @typed(gate(server).guard("refund", payment_key="{order}", counterparty=lambda: "c", currency="USD", failed_if=Declined))
    def pay(order: str, amount: Decimal) -> str:
        raise Declined("no money")

    assert tool(pay).call(ARGUMENTS) == Told("failed", "Not carried out: it failed. no money") and server.close() == []


class Method(enum.Enum):
    CARD = "card"


def test_a_tool_validates_first() -> None:
    """What the schema does not accept is not asked for, nor what the guard fills in taken from the model."""
    ran: list[dict[str, Any]] = []

    @typed(gate(None).within(0.1).guard("refund", payment_key="{order}", counterparty=lambda: "c", currency="USD"))
    def pay(
        order: uuid.UUID, amount: Decimal, lines: list[int], tags: dict[str, bool], kind: Literal["a", "b"] = "a",
        method: Method | None = None, *, execution_id: str = "", permit: Any = None,
    ) -> None:
        raise AssertionError("it ran")

    made = tool(pay, name="refund", description="Pays back.")
    assert (made.name, made.description) == ("refund", "Pays back.")
    assert made.schema == {"type": "object", "additionalProperties": False, "required": ["order", "amount", "lines", "tags"], "properties": {
        "order": {"type": "string", "format": "uuid"},
        "amount": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "tags": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "kind": {"enum": ["a", "b"]},
        "method": {"anyOf": [{"enum": ["card"]}, {"type": "null"}]},
    }}
    good = {"order": str(uuid.uuid4()), "amount": 19.9, "lines": [1], "tags": {"x": True}}
    assert made.call(good).state == "unanswered"  # so it was asked for
    wrong: list[dict[str, Any]] = [
        {"order": "1"}, {"order": 1}, {"amount": "x"}, {"amount": True}, {"amount": "0"}, {"amount": "19.999"}, {"lines": [True]}, {"lines": ["1"]},
        {"lines": 1}, {"tags": {"x": 1}}, {"kind": "c"}, {"method": "cash"}, {"execution_id": "exe_1"}, {"permit": None}, {"other": 1},
    ]
    for change in wrong:
        assert made.call({**good, **change}).state == "invalid", change
    assert made.call({"amount": 1}).message == "Not carried out. lines is missing; order is missing; tags is missing"
    assert ran == []


def test_a_tool_needs_types() -> None:
    guarding = gate(None).guard("refund", payment_key="{order}")
    functions: list[Callable[..., Any]] = [lambda order: order, _of_object, _of_many]
    for function in functions:
        with pytest.raises(TypeError, match="tool"):
            tool(guarding(function))
    with pytest.raises(TypeError, match="is not guarded"):
        tool(_of_object)


def _of_object(order: str, other: object) -> None:
    pass


def _of_many(order: str, **more: str) -> None:
    pass


@pytest.mark.parametrize("async_", [False, True])
def test_langgraph(async_: bool) -> None:
    """Only the service's answer counts, and the answer to one question never reaches another."""
    server, ran = playing("waiting", "waiting", "proceed"), list[str]()
    pay = interrupting(refund(server, ran, async_))

    async def awaited() -> Any:
        return [interrupt("which account?"), await pay(**ARGUMENTS), interrupt("delete the account?")]

    def node() -> Any:
        if async_:
            return asyncio.run(awaited())
        return [interrupt("which account?"), pay(**ARGUMENTS), interrupt("delete the account?")]

    thread = Thread()
    with pytest.raises(GraphInterrupt, match="which account"):
        thread.run(node)
    for resumed in ("mine", {"approved": True}):
        with pytest.raises(GraphInterrupt) as asks:
            thread.run(node, resumed)
        assert asks.value.args[0]["approval_id"] == "apr_1" and ran == []
    with pytest.raises(GraphInterrupt, match="delete"):
        thread.run(node, "yes, refund it")
    assert thread.run(node, "no") == ["mine", Told("executed", "psp-1", "psp-1"), "no"]
    assert ran == ["order-1"] and server.close() == []


@pytest.mark.parametrize("async_", [False, True])
def test_langgraph_tool(async_: bool) -> None:
    server, ran = playing("waiting", "denied"), list[str]()
    made = structured_tool(refund(server, ran, async_), name="refund")
    assert (made.name, made.description, list(made.args_schema["properties"])) == ("refund", "Pays an order back.", ["order", "amount"])
    thread = Thread()
    with pytest.raises(GraphInterrupt):
        thread.run(lambda: made.invoke(ARGUMENTS))
    assert thread.run(lambda: made.invoke(ARGUMENTS), "approved") == "Not carried out. people decide. Wait."
    assert ran == [] and server.close() == []


@pytest.mark.parametrize("async_", [False, True])
def test_openai_agents(async_: bool) -> None:
    server, ran = playing("proceed"), list[str]()
    made = guarded_tool(refund(server, ran, async_))
    assert list(made.params_json_schema["properties"]) == ["order", "amount"] and not made.strict_json_schema

    async def call(arguments: str) -> Any:
        return await made.on_invoke_tool(RunContextWrapper[Any](), arguments)

    assert asyncio.run(call('{"order": "order-1", "amount": 42.50}')) == "psp-1"
    for wrong in ("{", "", '{"order": "order-1", "amount": 42.50, "execution_id": "exe_1"}'):
        assert asyncio.run(call(wrong)).startswith("Not carried out")
    assert server.close() == [] and ran == ["order-1"]


def test_temporal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"request": "ask", "has": {"take_over": True}, "change": {"payment": {"payment_key": "refund-1"}}}
    report = {**REPORT, "send": {**REPORT["send"], "reference": f"psp-{GUARD['cases'][0]['calls'][0]['ran']}"}}
    server = GuardServer({
        "with": {"payment_key": "refund-1", "agent_id": "support-bot", "policy_id": "support-refunds"},
        "exchanges": [*({**asked, "answer": a} for a in ("waiting", "down", "waiting", "proceed")), report, {**asked, "answer": "executed"}],
    })
    for name, value in {"API_URL": server.url, "API_KEY": GUARD["api_key"]}.items():
        monkeypatch.setenv(f"SPENDGATE_{name}", value)
    sample = importlib.util.spec_from_file_location("sample", pathlib.Path(__file__).parents[1] / "examples/temporal_refund.py")
    assert sample and sample.loader
    module = importlib.util.module_from_spec(sample)
    sample.loader.exec_module(module)
    started = module.Refund()
    workflow.meanwhile[:] = [started.decided, started.decided]
    assert asyncio.run(started.run("1", "c", "42.50")).startswith("psp-exe_")
    assert asyncio.run(started.run("1", "c", "42.50")) == "psp-0"
    assert server.close() == []
    assert all(issubclass(getattr(spendgate, name), spendgate.SpendgateError) for name in module.FINAL)
