"""The conformance cases, run with both clients."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import json
import pathlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar, cast

import httpx
import pytest
from scripted import FILE, Server, differences

import spendgate
from spendgate import AsyncSpendgate, Spendgate

F = TypeVar("F", bound=Callable[..., Any])

KINDS = {
    "api_error": spendgate.APIError,
    "no_decision": spendgate.NoDecision,
    "no_answer": spendgate.NoAnswer,
    "bad_signature": spendgate.BadSignature,
    "blocked": spendgate.Blocked,
    "approval_pending": spendgate.ApprovalPending,
    "denied": spendgate.Denied,
    "approval_expired": spendgate.ApprovalExpired,
    "already_executed": spendgate.AlreadyExecuted,
    "redemption_required": spendgate.RedemptionRequired,
    "already_reported": spendgate.AlreadyReported,
    "in_doubt": spendgate.InDoubt,
    "unanswered": spendgate.Unanswered,
    "key_reused": spendgate.KeyReused,
}
#: Calls whose first argument is positional, by its name on the wire.
FIRST = {"check_id", "approval_id", "key_id"}


class Died(BaseException):
    """Stands for the end of the process."""


class Declined(Exception):
    """An error that, as the guard was told, means that nothing was moved."""


def client(async_: bool, url: str, options: dict[str, Any], **more: Any) -> tuple[Any, list[float]]:
    names = {"attempts": "attempts", "attempt_timeout": "timeout", "max_wait": "max_wait", "deadline": "deadline"}
    given = {names[name]: value for name, value in options.items() if name in names}
    kind, http = (AsyncSpendgate, httpx.AsyncClient) if async_ else (Spendgate, httpx.Client)  # type: Any, Any
    gate = kind(url, FILE["api_key"], admin_key=FILE["admin_key"], http=http(verify=False), **given, **more)
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
@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in FILE["cases"] if c["call"] != "guard"])
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


class Body:
    """The body of a guard, which does what the run says."""

    def __init__(self, do: str, reference: Any) -> None:
        self.do, self.reference, self.ran = do, reference, []  # type: str, Any, list[str]

    def __call__(self, check_id: str) -> Any:
        self.ran.append(check_id)
        if self.do == "return":
            return self.reference
        raise {"raise": RuntimeError("lost"), "decline": Declined("card declined"), "die": Died()}[self.do]


def typed(decorator: Any) -> Callable[[F], F]:
    return cast(Callable[[F], F], decorator)


def by_decorator(gate: Any, action: dict[str, Any], terms: dict[str, Any], body: Body) -> Any:
    """Each member is read when it is needed, since members may change meanwhile."""

    def member(name: str) -> Callable[[], Any]:
        return lambda: action[name]

    action_type, key = action["action_type"], action["idempotency_key"]
    members = {name: member(name) for name in action if name not in ("action_type", "idempotency_key")}
    guarding = gate.guard(action_type, key=lambda: key, **members, **terms, reference=lambda returned: returned)
    if isinstance(gate, Spendgate):

        @typed(guarding)
        def pay(*, check_id: str = "") -> Any:
            return body(check_id)

        return pay()

    @typed(guarding)
    async def pay_soon(*, check_id: str = "") -> Any:
        return body(check_id)

    return asyncio.run(pay_soon())


def by_with(gate: Any, action: dict[str, Any], terms: dict[str, Any], body: Body) -> Any:
    if isinstance(gate, Spendgate):
        with gate.check(**action, **terms) as c:
            returned = body(c.check_id)
            c.executed(reference=returned)
        return returned

    async def run() -> Any:
        async with gate.check(**action, **terms) as c:
            returned = body(c.check_id)
            c.executed(reference=returned)
        return returned

    return asyncio.run(run())


def guarded() -> list[Any]:
    """The cases, for each way to guard. A blocking check() asks before its body begins; test_guard.py has the cases
    with a key that the journal knows."""
    return [
        pytest.param(case, how, async_, id=f"{case['name']}-{how.__name__}-{'async' if async_ else 'blocking'}")
        for case in FILE["cases"]
        if case["call"] == "guard"
        for how, async_ in [(by_decorator, False), (by_decorator, True), (by_with, True), (by_with, False)]
        if how is by_decorator or async_ or (len(case["runs"]) == 1 and "redeem" in case["options"])
        if how is by_decorator or not any("meanwhile" in run for run in case["runs"])
    ]


@pytest.mark.parametrize(("case", "how", "async_"), guarded())
def test_guard(case: dict[str, Any], how: Callable[..., Any], async_: bool, tmp_path: pathlib.Path) -> None:
    journal = tmp_path / "journal.db"
    nonces: dict[pathlib.Path, set[str]] = {}
    for number, run in enumerate(case["runs"]):
        if run.get("journal") == "new":
            journal = tmp_path / f"journal-{number}.db"
        server = Server(run["exchanges"])
        gate, _ = client(async_, server.url, {}, journal=journal, redeem=case["options"].get("redeem"))
        body, returned, error = Body(run.get("do", ""), run.get("reference", "psp-1")), None, None
        action = {**FILE["action"], **case["with"], **run.get("with", {})}
        server.then = functools.partial(action.update, run.get("meanwhile", {}))
        terms = {"provider_key": case["options"].get("provider_key", False), "failed_on": (Declined,)}
        try:
            returned = drain(gate.resume()) if run.get("resume") else how(gate, action, terms, body)
        except (spendgate.SpendgateError, Died, Declined) as raised:
            error = raised
        assert server.close() == [], f"run {number}"
        nonces.setdefault(journal, set()).update(nonce for nonce in server.nonces if nonce)
        assert body.ran == ([run["ran"]] if run.get("ran") else []), f"run {number}"
        want = run.get("raises")
        if want and want["kind"] in ("died", "declined"):
            assert type(error) is (Died if want["kind"] == "died" else Declined)
        elif want:
            judge(want, error, server)
        else:
            assert error is None, repr(error)
            expected = run["in_doubt"] if run.get("resume") else run["returns"]
            assert ([e.key for e in returned or []] if run.get("resume") else returned) == expected
    assert all(len(of) <= 1 for of in nonces.values()) and len(set().union(*nonces.values())) == sum(map(len, nonces.values())), nonces


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
