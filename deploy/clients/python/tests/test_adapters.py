"""The adapters and the sample, tested against the libraries' published interfaces (tests/published)."""

from __future__ import annotations

import asyncio
import importlib.util
import pathlib
from typing import Any

import pytest
from langgraph.types import GraphInterrupt, Thread, interrupt
from scripted import Server
from temporalio import workflow
from temporalio.exceptions import ActivityError

import spendgate
from agents import RunContextWrapper
from spendgate import Spendgate
from spendgate.langgraph import interrupting
from spendgate.openai_agents import guarded_tool
from spendgate.tools import explain

CHECK: dict[str, Any] = {"method": "POST", "path": "/v1/checks"}
ALLOW: dict[str, Any] = {"expect": CHECK, "body": "allow"}
ESCALATE: dict[str, Any] = {**ALLOW, "change": {"check_id": "chk_0", "decision": "escalate", "approval_id": "apr_1"}}
REPORT: dict[str, Any] = {"expect": {"method": "POST", "path": "/v1/checks/chk_1/outcome"}, "status": 201, "body": "outcome"}


def approval(status: str) -> dict[str, Any]:
    return {"expect": {"method": "GET", "path": "/v1/approvals/apr_1"}, "body": "approval", "change": {"status": status}}


def refund(server: Server, path: pathlib.Path, ran: list[str]) -> Any:
    gate = Spendgate(server.url, "key", agent_id="a", policy_id="p", journal=path / "j", redeem=False)

    @gate.guard("refund", key="refund-{order}", counterparty="{order}", currency="USD", reference=str)
    def pay(order: str, amount: str, *, check_id: str = "") -> str:
        ran.append(order)
        return "psp-1"

    return pay


def test_langgraph(tmp_path: pathlib.Path) -> None:
    pending = [ESCALATE, approval("pending")]
    server = Server([ALLOW, REPORT, *pending * 3, ESCALATE, approval("approved"), ALLOW, REPORT])
    ran: list[str] = []
    pay = interrupting(refund(server, tmp_path, ran))

    def node() -> Any:
        return [interrupt("which account?"), pay("1", "10"), pay("2", "300"), interrupt("delete the account?")]

    thread = Thread()
    with pytest.raises(GraphInterrupt, match="which account"):
        thread.run(node)
    with pytest.raises(GraphInterrupt) as first:
        thread.run(node, "mine")
    assert first.value.args[0]["approval_id"] == "apr_1" and ran == ["1"]
    # The graph is resumed with values that say yes; only the service's answer counts.
    for yes in ({"approved": True}, "yes"):
        with pytest.raises(GraphInterrupt) as again:
            thread.run(node, yes)
        assert again.value.args[0]["approval_id"] == "apr_1" and ran == ["1"]
    # No answer to the approval answers the question behind it.
    with pytest.raises(GraphInterrupt, match="delete"):
        thread.run(node, "yes, refund it")
    assert ran == ["1", "2"]
    assert thread.run(node, "no") == ["mine", "psp-1", "psp-1", "no"] and ran == ["1", "2"]
    assert Thread().run(lambda: [pay("1", "10"), pay("2", "300")]) == ["psp-1", "psp-1"] and ran == ["1", "2"]
    assert server.close() == []


def test_langgraph_awaited(tmp_path: pathlib.Path) -> None:
    server = Server([ESCALATE, approval("pending"), ESCALATE, approval("approved"), ALLOW, REPORT])
    ran: list[str] = []
    gate = spendgate.AsyncSpendgate(server.url, "key", agent_id="a", policy_id="p", journal=tmp_path / "j", redeem=False)

    @gate.guard("refund", key="refund-{order}", counterparty="{order}", currency="USD", reference=str)
    async def pay(order: str, amount: str, *, check_id: str = "") -> str:
        ran.append(order)
        return "psp-1"

    async def node() -> Any:
        return [await interrupting(pay)("2", "300"), interrupt("delete the account?")]

    thread = Thread()
    for resumed, asks in (((), "apr_1"), (("yes",), "delete")):
        with pytest.raises(GraphInterrupt, match=asks):
            thread.run(lambda: asyncio.run(node()), *resumed)
    assert thread.run(lambda: asyncio.run(node()), "no") == ["psp-1", "no"] and ran == ["2"]
    assert server.close() == []


def test_langgraph_denied(tmp_path: pathlib.Path) -> None:
    server = Server([ESCALATE, approval("denied")] * 2)
    pay = interrupting(refund(server, tmp_path, []))
    with pytest.raises(spendgate.Denied):
        Thread().run(lambda: pay("1", "10"), "approved")
    with pytest.raises(spendgate.Denied):  # outside of a graph
        pay("1", "10")
    assert server.close() == []


def test_openai_agents(tmp_path: pathlib.Path) -> None:
    server = Server([ALLOW, REPORT, {"expect": CHECK, "body": "allow", "change": {"decision": "block", "message": "too much"}}])
    ran: list[str] = []
    tool = guarded_tool(refund(server, tmp_path, ran))
    # The model neither sees check_id nor can pass it.
    assert tool.params_json_schema == {"properties": ["order", "amount"]}

    def call(arguments: str) -> Any:
        async def invoke() -> Any:
            return await tool.on_invoke_tool(RunContextWrapper[Any](), arguments)

        return asyncio.run(invoke())

    assert call('{"order": "1", "amount": "10"}') == "psp-1"
    assert call('{"order": "1", "amount": "10"}').startswith("Already carried out, as psp-1. Do not carry the action out")
    assert call('{"order": "2", "amount": "10"}') == "Not carried out. too much Proceed."
    with pytest.raises(TypeError):
        call('{"order": "1", "amount": "10", "check_id": "chk_2"}')
    assert server.close() == [] and ran == ["1"]


def test_adapters_take_only_what_is_guarded(tmp_path: pathlib.Path) -> None:
    pay = refund(Server([]), tmp_path, [])
    for adapt in (interrupting, guarded_tool):
        adapt(pay)
        with pytest.raises(TypeError, match="is not guarded"):
            adapt(pay.__wrapped__)
    guarded_tool(interrupting(pay))


def test_temporal(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([ESCALATE, approval("pending"), ESCALATE, approval("pending"), ESCALATE, approval("approved"), ALLOW, REPORT])
    for name, value in {"API_URL": server.url, "API_KEY": "key", "JOURNAL": str(tmp_path / "j")}.items():
        monkeypatch.setenv(f"SPENDGATE_{name}", value)
    sample = importlib.util.spec_from_file_location("sample", pathlib.Path(__file__).parents[1] / "examples/temporal_refund.py")
    assert sample and sample.loader
    module = importlib.util.module_from_spec(sample)
    sample.loader.exec_module(module)
    module.gate.redeeming = False
    started = module.Refund()
    workflow.meanwhile[:] = [started.decided, started.decided]
    assert asyncio.run(started.run("1", "c", "300")) == "psp-chk_1"
    assert asyncio.run(started.run("1", "c", "300")) == "psp-chk_1"
    calls = [spendgate.Running("refund-1"), spendgate.InDoubt("refund-1", "chk_1", "it has begun")]

    def pay(*arguments: str) -> str:
        raise calls.pop(0)

    monkeypatch.setattr(module, "pay", pay)
    with pytest.raises(ActivityError):  # what runs is asked for again, what is in doubt is not
        asyncio.run(started.run("1", "c", "300"))
    assert calls == []
    assert server.close() == []


def test_explanations() -> None:
    doubt = spendgate.InDoubt("order-1", "chk_1", "it has begun")
    assert "Do not repeat it" in explain(doubt) and explain(doubt).startswith("Not carried out now")
    assert explain(spendgate.Running("order-1")).startswith("Not carried out by this call. 'order-1' is being carried out now: call again")
    lost = spendgate.NoDecision("order-1", spendgate.NoAnswer("no answer"))
    assert "is safe" in explain(lost)
    assert explain(spendgate.APIError(403, "forbidden", "no", "req_1", 0)) == "Not carried out. forbidden: no (403, req_1)"
