"""Agents that are killed at every step: the provider's ledger never has one action twice, and equals the record."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import repeated
from lives import Ledger, client, live

from spendgate import Spendgate

ACTIONS = 200  # of which each is killed at a step of its own


@pytest.fixture
def fake() -> Iterator[str]:
    """The address of a fake service."""
    with subprocess.Popen([sys.executable, str(pathlib.Path(__file__).with_name("fake.py"))], stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout
        try:
            yield p.stdout.readline().strip()
        finally:
            p.kill()


def kill_and_count(url: str, key: str, ledger: Ledger, operator: Spendgate, actions: int, **options: Any) -> int:
    """Has each action killed at a step of its own, twice, and brought to its end. Returns how many were in doubt."""
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
        assert outcome and outcome.status == end and moved in ([], [check_id])
    assert furthest, "no life came to its end: the steps are more than are killed"
    assert not Spendgate(url, key, journal=options.get("journal"), redeem=True).resume()
    return doubts


@pytest.mark.parametrize("takes_key", [False, True])
def test_with_redeem(fake: str, tmp_path: pathlib.Path, takes_key: bool) -> None:
    ledger = Ledger(tmp_path / "ledger.db", takes_key)
    doubts = kill_and_count(fake, "key", ledger, Spendgate(fake, "key"), 25, policy_id="p", journal=tmp_path / "journal.db")
    assert (doubts == 0) if takes_key else (0 < doubts < 13)


def test_with_redeem_and_no_journal(fake: str, tmp_path: pathlib.Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", False)
    assert 0 < kill_and_count(fake, "key", ledger, Spendgate(fake, "key"), 25, policy_id="p")


@pytest.mark.parametrize("takes_key", [False, True])
def test_with_a_node(node: Spendgate, agent_key: str, tmp_path: pathlib.Path, takes_key: bool) -> None:
    """The node is killed, too, by whoever runs this test."""
    ledger = Ledger(tmp_path / "ledger.db", takes_key)
    policy = f"kills-{takes_key}"
    cap = {"rule_id": "cap", "rule_type": "max_amount", "parameters": {"limit": 1000, "currency": "USD"}}
    repeated(lambda: node.create_policy(policy_id=policy, name="kills", rules=[cap]))
    options: dict[str, Any] = {"policy_id": policy, "journal": tmp_path / "journal.db", "redeem": False}
    actions = 25 if takes_key else ACTIONS
    doubts = kill_and_count(node.base, agent_key, ledger, node, actions, **options)
    assert (doubts == 0) if takes_key else (0 < doubts < actions / 2)
    executed = {c.action.idempotency_key: c.check_id for c in node.checks(policy_id=policy, outcome="executed")}
    assert executed == dict(ledger.moved())
    assert len(list(node.checks(policy_id=policy))) == actions
