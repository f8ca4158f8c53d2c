"""The conformance cases, run with both clients."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest
from scripted import FILE, GUARD, GuardServer, Server, differences

import spendgate
from spendgate import AsyncSpendgate, Spendgate

KINDS: dict[str, type[Exception]] = {
    "api_error": spendgate.APIError,
    "no_decision": spendgate.NoDecision,
    "no_answer": spendgate.NoAnswer,
    "bad_signature": spendgate.BadSignature,
    "blocked": spendgate.Blocked,
    "pending": spendgate.ApprovalPending,
    "denied": spendgate.Denied,
    "expired": spendgate.ApprovalExpired,
    "escalated": spendgate.Escalated,
    "in_doubt": spendgate.InDoubt,
    "unanswered": spendgate.Unanswered,
    "differs": spendgate.Differs,
    "changed": spendgate.ActionChanged,
    "bad_key": spendgate.BadKey,
}
#: Calls whose first argument is positional, by its name on the wire.
FIRST = {"check_id", "approval_id", "key_id"}


class Declined(Exception):
    """An error that, as the guard was told, means that nothing was moved."""


KINDS["declined"] = Declined


def client(async_: bool, url: str, options: dict[str, Any], **more: Any) -> tuple[Any, list[float]]:
    names = {"attempts": "attempts", "attempt_timeout": "timeout", "max_wait": "max_wait", "deadline": "deadline"}
    given = {names[name]: value for name, value in options.items() if name in names}
    kind, http = (AsyncSpendgate, httpx.AsyncClient) if async_ else (Spendgate, httpx.Client)  # type: Any, Any
    gate = kind(url, "" if options.get("admin_only") else FILE["api_key"], admin_key=FILE["admin_key"], http=http(verify=False), **given, **more)
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    gate._pause = pause if async_ else waits.append
    return gate, waits


def drain(value: Any) -> Any:
    """The value of an awaitable, the list of an iterator, or the value itself."""

    async def collect() -> Any:
        return [element async for element in value]

    async def wait() -> Any:
        return await value

    if hasattr(value, "__aiter__"):
        return asyncio.run(collect())
    if inspect.isawaitable(value):
        return asyncio.run(wait())
    return list(value) if isinstance(value, spendgate.Listing) else value


def on_wire(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        members = {f.name.rstrip("_"): on_wire(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {**members, "allowed": value.allowed} if isinstance(value, spendgate.Result) else members
    if isinstance(value, list):
        return [on_wire(element) for element in value]
    return str(value) if isinstance(value, datetime) else value


def call(gate: Any, case: dict[str, Any]) -> Any:
    name, given = case["call"], dict(case.get("with", {}))
    if name == "check":
        given = {**FILE["action"], **given}
    if name == "verify_webhook":
        body = given["body"].encode()
        return spendgate.verify_webhook(given["secrets"], given["headers"], body, now=case["at"])
    if "from" in given:
        given["from_"] = given.pop("from")
    positional = [given.pop(n) for n in list(given) if n in FIRST and name not in ("check", "checks")]
    method = {"self": "self_key", "events": "events_page"}.get(name, name)
    return drain(getattr(gate, method)(*positional, **given))


def judge(want: dict[str, Any], error: BaseException | None, server: Server | None) -> None:
    kind = KINDS[want["kind"]]
    assert type(error) is kind, repr(error)
    if isinstance(error, spendgate.NoDecision) and server:
        sent = json.loads(next(body for method, _, body in reversed(server.requests) if method == "POST"))
        assert error.idempotency_key == sent["idempotency_key"]
    source: Any = error.error if isinstance(error, spendgate.NoDecision) else error
    for name, value in want.items():
        if name != "kind":
            assert getattr(source, name) == value, name


@pytest.mark.parametrize("async_", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in FILE["cases"]])
def test_case(case: dict[str, Any], async_: bool) -> None:
    server = Server(case.get("exchanges", []))
    gate, waits = client(async_, server.url, case.get("options", {}))
    returned, error = None, None
    try:
        returned = call(gate, case)
    except spendgate.SpendgateError as raised:
        error = raised
    assert server.close() == []
    if "raises" in case:
        judge(case["raises"], error, server)
    else:
        assert error is None, repr(error)
        assert differences(case["returns"], on_wire(returned), "returned") == []
    if "waits" in case:
        assert len(waits) == len(case["waits"]), waits
        for wait, (least, most) in zip(waits, case["waits"]):
            assert least <= wait <= most


class Clock:
    """The guard's, which only its pauses and the answers move."""

    def __init__(self, gate: Any) -> None:
        self.now, gate._clock = 0.0, lambda: self.now
        gate._pause, gate._sleep = self.sleep_soon if isinstance(gate, AsyncSpendgate) else self.sleep, self.sleep

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def sleep_soon(self, seconds: float) -> None:
        self.now += seconds


def _reading(action: dict[str, Any], name: str) -> Callable[[], Any]:
    return lambda: action[name]


def play(gate: Any, how: str, call: dict[str, Any], ran: list[str], server: GuardServer) -> Any:
    """Makes the call with a guarded function, whose action is made of a mapping that changes, or with pay()."""
    options, does = dict(call.get("options", {})), call.get("body", {})
    if "failed_if" in options:
        options["failed_if"] = Declined if options["failed_if"] == "error" else "declined".__eq__
    action = dict(server.asked)
    server.then = lambda: action.update(call.get("meanwhile", {}))
    options["reference"] = lambda value: does.get("reference", value)

    def body(permit: spendgate.Permit) -> Any:
        ran.append(permit.execution_id)
        if "raise" in does:
            raise Declined() if does["raise"] == "declined" else RuntimeError("lost")
        if "amount" in does:
            permit.executed(reference="psp-1", amount=does["amount"])
        return does.get("return", "psp-1")

    async def soon(permit: spendgate.Permit) -> Any:
        return body(permit)

    async_ = isinstance(gate, AsyncSpendgate)
    if how == "pay":
        return drain(gate.pay(soon if async_ else body, **action, **options))
    members = {name: _reading(action, name) for name in action if name != "action_type"}
    guarding = gate.guard(action["action_type"], **members, **options)
    if async_:
        async def pay_soon(*, permit: Any = None) -> Any:
            return body(permit)

        return drain(guarding(pay_soon)())
    return guarding(lambda *, permit=None: body(permit))()


@pytest.mark.parametrize("async_", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize(("how", "case"), [
    pytest.param(how, c, id=f"{c['name']}-{how}") for c in GUARD["cases"] for how in ("guard", "pay")
    if how == "guard" or not any("meanwhile" in call for call in c["calls"])
])
def test_guard(how: str, case: dict[str, Any], async_: bool) -> None:
    stalls = any(x.get("fail") == "stall" for call in case["calls"] for x in call["exchanges"])
    gate, _ = client(async_, "http://127.0.0.1:9", {"attempt_timeout": 0.5} if stalls else {})
    clock, nonces = Clock(gate), set[str]()
    for number, call in enumerate(case["calls"]):
        server, ran = GuardServer(call), list[str]()
        gate.base, returned, error = server.url, None, None
        try:
            server.takes = clock.sleep
            returned = play(gate, how, call, ran, server)
        except (spendgate.SpendgateError, Declined) as raised:
            error = raised
        for _ in range(100):
            if len(server.requests) >= len(server.exchanges) and not gate.undelivered:
                break
            time.sleep(0.01)
        assert server.close() == [], number
        assert len(server.nonces) == (1 if call["exchanges"] else 0) and not server.nonces & nonces
        nonces |= server.nonces
        assert ran == ([call["ran"]] if call["ran"] else []), number
        if "raises" in call:
            judge(call["raises"], error, None)
        else:
            assert error is None, repr(error)
            assert returned == call["returns"]


def test_amounts() -> None:
    from spendgate.wire import money

    most = "999999999999999999.9"
    for text, exact in {"42.50": "42.5", "1e1": "10", "0": "0", "-0": "0", "00.100000000000": "0.1", most: most}.items():
        assert money(text) == Decimal(exact) and str(money(text)) == exact, text
    for wrong in ("", "x", "NaN", "Infinity", "-1", "1_0", "١", " 1", "1.0000000001", "1" * 19, "12345678901.123456789", "1e400"):
        with pytest.raises(ValueError):
            money(wrong)
    for other in (1.5, True, None):
        with pytest.raises(TypeError):
            money(other)  # type: ignore[arg-type]
