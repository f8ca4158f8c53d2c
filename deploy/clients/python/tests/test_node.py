"""Every operation, with a real node."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest

import spendgate
from conftest import new_key
from spendgate import AsyncSpendgate, Spendgate

ACTION: dict[str, Any] = {"currency": "USD", "agent_id": "a", "policy_id": "py"}


@pytest.fixture(scope="module")
def policy(node: Spendgate) -> str:
    rules = [
        {"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": Decimal("99999999999999.9"), "currency": "USD"}},
        {"rule_id": "review", "rule_type": "escalate_if", "parameters": {"amount_above": 200, "approval": {}}},
        {"rule_id": "day", "rule_type": "budget", "parameters": {"limit": 100000000000000, "currency": "USD", "window": "day"}},
    ]
    made = node.create_policy(policy_id="py", name="n", rules=rules, note="first")
    assert made.version == 1 and made.rules[0].parameters["limit"] == Decimal("99999999999999.9")
    assert node.policy("py") == made and [v.note for v in node.policy_versions("py")] == ["first"]
    assert "py" in [p.policy_id for p in node.policies(limit=1)]
    return "py"


def test_every_operation(node: Spendgate) -> None:
    """The client has each operation of the document, named after the operation or after what it gets or lists."""
    named = {"createCheck": "check", "redeemCheck": "redeem", "reportInDoubt": "in_doubt", "getOwnKey": "self_key"}
    paths = httpx.get(f"{node.base}/openapi.json").json()["paths"].values()
    operations = {operation["operationId"] for path in paths for operation in path.values()} - {"getOpenAPI", "getOpenAPIJSON"}
    assert len(operations) > 40
    for operation in operations:
        name = named.get(operation) or re.sub(r"(?=[A-Z])", "_", operation).lower()
        assert callable(getattr(node, name, None) or getattr(node, re.sub("^(get|list)_", "", name), None)), operation


def test_checks(node: Spendgate, policy: str) -> None:
    key = "checks-1"
    first = node.check("refund", amount="100.50", counterparty="c", idempotency_key=key, metadata={"n": Decimal("1.10")}, **ACTION)
    assert first.allowed and not first.replayed
    again = node.check("refund", amount=Decimal("100.5"), counterparty="c", idempotency_key=key, metadata={"n": Decimal("1.1")}, **ACTION)
    assert again.allowed and again.replayed and again.body == first.body
    read = node.get_check(first.check_id)
    assert read.decision == "allow" and not read.allowed and read.outcome is None
    with pytest.raises(spendgate.APIError) as refused:
        node.check("refund", amount=2, counterparty="c", idempotency_key=key, **ACTION)
    assert refused.value.code == "validation_error" and refused.value.request_id.startswith("req_")
    with pytest.raises(spendgate.APIError) as faulty:
        node.check("refund", amount=2, counterparty="", currency="dollars", agent_id="a", policy_id="py")
    assert len(faulty.value.faults) == 2, faulty.value.faults
    outcome = node.report_outcome(first.check_id, "executed", amount="100.25", reference="psp-1")
    assert outcome.amount == Decimal("100.25") and not outcome.replayed
    assert node.report_outcome(first.check_id, "executed", amount="100.25", reference="psp-1").replayed
    assert node.get_outcome(first.check_id).reference == "psp-1"
    over = node.check("refund", amount="100.5", counterparty="c", idempotency_key=key, metadata={"n": Decimal("1.1")}, **ACTION)
    assert not over.allowed and over.outcome and over.outcome.status == "executed"
    assert [c.outcome for c in node.checks(idempotency_key=key)] == [node.get_outcome(first.check_id)]
    assert node.simulate("py", [{"amount": 1, "counterparty": "c", "action_type": "refund", **ACTION}]).results[0].decision == "allow"


def test_redemptions(node: Spendgate, policy: str) -> None:
    gateway = Spendgate(node.base, node.create_key(name="gw", role="gateway").api_key)
    action: dict[str, Any] = {"counterparty": "redeemed", "amount": Decimal("10.50"), **ACTION}
    key = "redeem-1"
    asked = node.check("refund", idempotency_key=key, **action)
    with pytest.raises(spendgate.APIError) as other:
        gateway.redeem(asked.check_id, action_type="refund", **dict(action, amount=Decimal("10.51")))
    assert other.value.code == "action_mismatch"
    redemption = gateway.redeem(asked.check_id, action_type="refund", idempotency_key="r-1", **action)
    assert not redemption.replayed and redemption.action.amount == Decimal("10.5")
    assert gateway.redeem(asked.check_id, action_type="refund", idempotency_key="r-1", **action).replayed
    with pytest.raises(spendgate.APIError) as taken:
        gateway.redeem(asked.check_id, action_hash=redemption.action_hash)
    assert taken.value.code == "check_already_redeemed"
    replay = node.check("refund", idempotency_key=key, **action)
    assert not replay.allowed and replay.redemption and replay.redemption.redemption_id == redemption.redemption_id
    gateway.in_doubt(asked.check_id)
    again = node.get_check(asked.check_id)
    assert again.redemption and again.redemption.in_doubt and (again.next_step or "").startswith("Do not carry")
    assert [c.check_id for c in node.checks(outcome="in_doubt", counterparty="redeemed")] == [asked.check_id]
    assert gateway.report_outcome(asked.check_id, "executed", reference="psp").report == 1


def test_exact_amounts(node: Spendgate, policy: str) -> None:
    amount = Decimal("12345678901234.56789")
    pending = node.check("spend", amount=amount, counterparty="exact", **ACTION)
    assert pending.approval_id and node.approval(pending.approval_id).action.amount == amount
    listed = next(iter(node.violations(policy_id=policy, limit=1)))
    assert listed.amount == amount and listed.check_id == pending.check_id


def test_payments(node: Spendgate, policy: str, approver: Spendgate, gateway_key: str) -> None:
    gate = Spendgate(node.base, gateway_key, agent_id="a", policy_id=policy)
    paid: list[str] = []

    @gate.guard("refund", payment_key="invoice-{invoice}", counterparty="{invoice}", currency="USD", reference=str)
    def pay(invoice: str, amount: Decimal, *, execution_id: str = "") -> str:
        paid.append(execution_id)
        return f"psp-{invoice}"

    with pytest.raises(spendgate.ApprovalPending) as pending:
        pay("77", Decimal(300))
    found = [one for one in approver.waiting() if isinstance(one, spendgate.Approval)]
    asked = next(one for one in found if one.approval_id == pending.value.approval_id)
    assert asked.status == "pending"
    assert node.wait_for_approval(asked.approval_id, timeout=0.1).status == "pending"
    assert approver.approve(asked.approval_id, asked.action_hash, note="fine").status == "approved"
    assert [pay("77", Decimal(300)) for _ in range(2)] == ["psp-77"] * 2 and len(paid) == 1 and paid[0].startswith("exe_")
    shown = next(iter(gate.checks(payment_key="invoice-77")))
    assert shown.payment and (shown.payment.state, shown.payment.execution_id, shown.payment.reference) == ("executed", paid[0], "psp-77")
    with pytest.raises(spendgate.Differs) as other:
        pay("77", Decimal(299))
    assert other.value.differs == ["amount"] and other.value.check_id == shown.check_id
    with pytest.raises(spendgate.ApprovalPending) as second:
        pay("78", Decimal(300))
    denied = node.approval(second.value.approval_id or "")
    approver.deny(denied.approval_id, denied.action_hash)
    with pytest.raises(spendgate.Denied):
        pay("78", Decimal(300))


def test_a_payment_that_people_corrected_meanwhile(node: Spendgate, policy: str, gateway_key: str) -> None:
    """They reported that nothing was moved, while the body moved it."""
    people = Spendgate(node.base, new_key(node, "executor"))
    gate = Spendgate(node.base, gateway_key, agent_id="a", policy_id=policy)

    def body(permit: spendgate.Permit) -> str:
        gate.in_doubt(permit.check_id, redemption_id=permit.redemption_id)
        people.report_outcome(permit.check_id, "voided")
        return "psp-1"

    asked: dict[str, Any] = {"payment_key": "corrected", "amount": 1, "currency": "USD", "counterparty": "c"}
    assert [gate.pay(body, "refund", reference=str, **asked) for _ in range(2)] == ["psp-1"] * 2
    assert gate.check("refund", **asked).payment.state == "executed"  # type: ignore[union-attr]


def test_lists_and_keys(node: Spendgate, policy: str) -> None:
    assert any(b.rule_id == "day" and b.used >= Decimal("100.25") for b in node.budgets(policy_id=policy))
    events = list(node.events())
    assert [e.sequence for e in events] == sorted(e.sequence for e in events) and "policy.created" in {e.type for e in events}
    assert list(node.events(after=events[-1].sequence)) == []
    made = node.create_key(name="k", role="auditor")
    assert made.api_key.startswith("svc_live_") and made.api_key not in repr(made)
    assert node.update_key(made.key_id, active=False).active is False
    assert made.key_id in [k.key_id for k in node.keys(limit=2)]
    assert list(node.sessions(limit=1)) == []
    with pytest.raises(spendgate.APIError, match="session"):
        node.end_session("ses_1")
    assert node.self_key().active and node.health().status == "ok"


def test_backtests(node: Spendgate, policy: str) -> None:
    day = node.check("spend", amount=150, counterparty="backtest", **ACTION).timestamp.date()
    stats = node.stats(from_=day, to=day, step="day", policy_id=policy)
    assert stats.total.allow == stats.data[0].allow > 0
    sums = node.sums(policy_id=policy, counterparty="backtest", from_=day)
    assert sums.since is None and [(s.currency, s.allow) for s in sums.amounts] == [("USD", Decimal(150))]
    rules = [{"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 149, "currency": "USD"}}]
    asked = node.create_backtest(policy_id=policy, rules=rules, from_=day, to=day)
    while not (found := node.backtest(asked.backtest_id)).ended:
        time.sleep(0.2)
    assert found.status == "succeeded" and found.report and found.report["flips"]["stricter"] > 0, found
    flipped = [f for f in node.flips(asked.backtest_id) if f.action and f.action.counterparty == "backtest"]
    assert [(f.recorded.decision, f.candidate.decision) for f in flipped] == [("allow", "block")]
    assert [b.backtest_id for b in node.backtests(policy_id=policy)] == [asked.backtest_id]
    with pytest.raises(spendgate.APIError) as ended:
        node.cancel_backtest(asked.backtest_id)
    assert ended.value.status == 409


def test_drafts(node: Spendgate, policy: str) -> None:
    cap = {"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 200, "currency": "USD"}}
    node.create_policy(policy_id="drafted", name="n", rules=[cap])
    put = node.put_draft("drafted", name="tight", rules=[{**cap, "parameters": {"limit": 10, "currency": "USD"}}])
    assert node.draft("drafted") == put and put.base_version == 1
    assert node.check("refund", amount=11, counterparty="c", currency="USD", agent_id="a", policy_id="drafted").allowed
    report = node.draft_report("drafted")
    assert report.report is None and report.status in ("queued", "running")
    while report.status != "succeeded":
        time.sleep(0.1)
        report = node.draft_report("drafted")
    assert report.report and report.report["flips"]["stricter"] == 1 and report.flips[0].candidate.decision == "block"
    with pytest.raises(spendgate.APIError) as other:
        node.promote_draft("drafted", 7)
    assert other.value.code == "policy_version_mismatch"
    assert node.promote_draft("drafted", 1, note="tighter").version == 2
    with pytest.raises(spendgate.APIError) as none:
        node.delete_draft("drafted")
    assert none.value.code == "draft_not_found"
    for stale in (1, 0):
        with pytest.raises(spendgate.APIError) as meanwhile:
            node.create_policy(policy_id="drafted", name="n", rules=[cap], replaces=stale)
        assert meanwhile.value.code == "policy_version_mismatch" and "version 2" in meanwhile.value.message
    assert node.create_policy(policy_id="drafted", name="n", rules=[cap], replaces=2).version == 3


def test_changes_by_two(node: Spendgate, approver: Spendgate) -> None:
    rules = [{"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 200, "currency": "USD"}}]
    assert node.create_policy(policy_id="by-two", name="n", rules=rules, changes={"required": 1}).changes == {"required": 1}
    first = node.put_draft("by-two", name="next", rules=rules)
    waits = [item for item in approver.waiting(policy_id="by-two") if isinstance(item, spendgate.types.WaitingDraft)]
    assert [(item.draft_hash, item.missing) for item in waits] == [(first.draft_hash, 1)]
    rejected = approver.reject_draft("by-two", first.draft_hash, note="no")
    assert rejected.status == "rejected" and rejected.rejection and rejected.rejection.note == "no"
    put = node.put_draft("by-two", name="next", rules=rules, replaces=first.draft_hash)
    bypasses: list[Callable[[], object]] = [
        lambda: node.create_policy(policy_id="by-two", name="x", rules=rules),
        lambda: node.promote_draft("by-two", 1),
    ]
    for bypass in bypasses:
        with pytest.raises(spendgate.APIError) as refused:
            bypass()
        assert refused.value.code == "change_needs_approval" and put.draft_hash in str(refused.value)
    assert node.draft("by-two").missing == 1
    approved = approver.approve_draft("by-two", put.draft_hash, note="seen")
    assert (approved.missing, approved.approvals[0].note, approved.approvals[0].counts) == (0, "seen", True)
    assert node.promote_draft("by-two", 1).changes is None


def test_webhooks(node: Spendgate) -> None:
    # No such event happens here, so nothing is delivered.
    made = node.create_webhook(url="https://9.9.9.9/events", event_types=["budget.exhausted"])
    assert made.secret.startswith("whsec_") and made.secret not in repr(made)
    assert node.rotate_webhook(made.webhook_id).secret != made.secret
    assert node.update_webhook(made.webhook_id, status="disabled").status == "disabled"
    assert [w.webhook_id for w in node.webhooks()] == [made.webhook_id] and node.webhook(made.webhook_id).event_types == ["budget.exhausted"]
    assert list(node.deliveries(made.webhook_id, status="failed")) == [] and node.retry_webhook(made.webhook_id).retried == 0
    with pytest.raises(spendgate.APIError) as unknown:
        node.replay_delivery(made.webhook_id, "dlv_" + "0" * 32)
    assert unknown.value.code == "delivery_not_found"
    node.delete_webhook(made.webhook_id)
    assert list(node.webhooks()) == []


def test_async(node: Spendgate, policy: str, gateway_key: str) -> None:
    async def story() -> None:
        gate = AsyncSpendgate(node.base, gateway_key, agent_id="a", policy_id=policy)
        paid: list[str] = []

        @gate.guard("refund", payment_key="async-{order}", counterparty="{order}", currency="USD")
        async def pay(order: str, amount: str, *, execution_id: str = "") -> str:
            await asyncio.sleep(0)
            paid.append(execution_id)
            return "paid"

        ended = await asyncio.gather(*(pay("1", "10.10") for _ in range(5)), return_exceptions=True)
        assert ended.count("paid") == 1 == len(paid)
        assert all(e in ("paid", None) or isinstance(e, spendgate.InDoubt) for e in ended), ended

        async def body(permit: spendgate.Permit) -> None:
            permit.executed(reference="psp-2", amount="10.99")

        await gate.pay(body, "refund", amount=11, currency="USD", counterparty="with", payment_key="async-with")
        found = [listed async for listed in gate.checks(payment_key="async-with")]
        assert [c.outcome and c.outcome.amount for c in found] == [Decimal("10.99")]

    asyncio.run(story())


def test_deadline(node: Spendgate) -> None:
    """Nothing listens at the address."""
    lost = Spendgate("http://127.0.0.1:9", "key", attempts=100)
    began = time.monotonic()
    with pytest.raises(spendgate.NoAnswer) as error:
        lost.within(0.5).health()
    assert time.monotonic() - began < 30 and not error.value.maybe_done  # all attempts would take some minutes
