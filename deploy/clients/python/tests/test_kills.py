"""Agents are killed at every step: the provider's ledger never has an action twice, and equals the record."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from conftest import new_key, repeated
from lives import Ledger, client, live

from spendgate import Spendgate

ACTIONS = 50  # of which two are killed first at each step


def kill_and_count(url: str, key: str, ledger: Ledger, operator: Spendgate, actions: int, **options: Any) -> int:
    """Carries out actions, each of whose processes is killed twice at a step of its own. Returns how many were in doubt."""
    doubts, furthest = 0, False
    for number in range(actions):
        action = f"{options['policy_id']}-{number}"
        lives = [number % 25, (number * 7 + number // 25) % 25]
        ends = [live(lambda: client(url, key, **options), ledger, action, at) for at in [*lives, -1]]
        furthest = furthest or ends[0][0] != "killed"
        end, check_id = ends[-1]
        moved = [k for a, k in ledger.moved() if a == action]
        assert len(moved) <= 1, f"{action}, killed at {lives}: {moved}"
        if end == "in doubt":
            doubts += 1
            operator.report_outcome(check_id, "executed" if moved else "voided")
            end, _ = live(lambda: client(url, key, **options), ledger, action, -1)
            assert [k for a, k in ledger.moved() if a == action] == moved
        assert end == ("executed" if moved else "voided"), f"{action}, killed at {lives}: {ends}"
        outcome = operator.get_check(check_id).outcome
        if outcome is None and "journal" in options:  # the node was killed over the report
            client(url, key, **options).resume()
            outcome = operator.get_check(check_id).outcome
        assert outcome and outcome.status == end and moved in ([], [check_id])
    assert furthest, "no life came to its end: the steps are more than are killed"
    assert not Spendgate(url, key, journal=options.get("journal"), redeem=True).resume()
    return doubts


@pytest.mark.parametrize(
    ("role", "takes_key", "has_journal"),
    [("agent", False, True), ("agent", True, True), ("gateway", False, True), ("gateway", True, True), ("gateway", False, False)],
)
def test_kills(node: Spendgate, tmp_path: pathlib.Path, role: str, takes_key: bool, has_journal: bool) -> None:
    """Whoever runs this test also kills the node."""
    ledger, key = Ledger(tmp_path / "ledger.db", takes_key), new_key(node, role)
    policy = f"kills-{role}-{takes_key}-{has_journal}"
    cap = {"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 1000, "currency": "USD"}}
    repeated(lambda: node.create_policy(policy_id=policy, name="kills", rules=[cap]))
    # Only the redeemer reports a redeemed check.
    operator = node if role == "agent" else Spendgate(node.base, key, attempts=20, max_wait=90)
    options: dict[str, Any] = {"policy_id": policy, "redeem": role == "gateway"}
    if has_journal:
        options["journal"] = tmp_path / "journal.db"
    actions = ACTIONS if role == "agent" and not takes_key else 25
    doubts = kill_and_count(node.base, key, ledger, operator, actions, **options)
    assert (doubts == 0) if takes_key else (0 < doubts < actions / 2)
    executed = {c.action.idempotency_key: c.check_id for c in node.checks(policy_id=policy, outcome="executed")}
    assert executed == dict(ledger.moved())
    assert len(list(node.checks(policy_id=policy))) == actions
