"""The node of tests that need one: SPENDGATE_API_URL, SPENDGATE_API_KEY and SPENDGATE_ADMIN_KEY name it."""

from __future__ import annotations

import os
import uuid

import pytest

from spendgate import Spendgate


@pytest.fixture(scope="session")
def node() -> Spendgate:
    """A client with a key of role full, that may also report."""
    if "SPENDGATE_API_URL" not in os.environ:
        pytest.skip("SPENDGATE_API_URL is not set")
    url, key, admin = (os.environ[f"SPENDGATE_{name}"] for name in ("API_URL", "API_KEY", "ADMIN_KEY"))
    return Spendgate(url, key, admin_key=admin, attempts=20, max_wait=90)


def new_key(node: Spendgate, role: str) -> str:
    return node.create_key(name=f"{role}-{uuid.uuid4()}", role=role, rate_limit_rpm=10_000).api_key


@pytest.fixture(scope="session")
def agent_key(node: Spendgate) -> str:
    return new_key(node, "agent")


@pytest.fixture(scope="session")
def approver(node: Spendgate) -> Spendgate:
    return Spendgate(node.base, new_key(node, "approver"))
