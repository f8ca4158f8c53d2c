"""A node for the tests that need one, named by SPENDGATE_API_URL, SPENDGATE_API_KEY and SPENDGATE_ADMIN_KEY."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import TypeVar

import pytest

from spendgate import Spendgate, SpendgateError

T = TypeVar("T")


@pytest.fixture(scope="session")
def node() -> Spendgate:
    """A client with a key of role full that may also report outcomes."""
    if "SPENDGATE_API_URL" not in os.environ:
        pytest.skip("SPENDGATE_API_URL is not set")
    url, key, admin = (os.environ[f"SPENDGATE_{name}"] for name in ("API_URL", "API_KEY", "ADMIN_KEY"))
    return Spendgate(url, key, admin_key=admin, attempts=20, max_wait=90)


def repeated(call: Callable[[], T]) -> T:
    """Repeats calls that the client does not: the node is killed now and then, and making an object twice does no harm here."""
    for _ in range(20):
        try:
            return call()
        except SpendgateError as error:
            if not error.maybe_done:
                raise
            time.sleep(0.2)
    return call()


def new_key(node: Spendgate, role: str) -> str:
    name = f"{role}-{uuid.uuid4()}"
    return repeated(lambda: node.create_key(name=name, role=role, principal=name, rate_limit_rpm=10_000)).api_key


@pytest.fixture(scope="session")
def gateway_key(node: Spendgate) -> str:
    return new_key(node, "gateway")


@pytest.fixture(scope="session")
def approver(node: Spendgate) -> Spendgate:
    return Spendgate(node.base, new_key(node, "approver"))
