"""The settings of a guard: its options, the record of its API key, and its journal."""

from __future__ import annotations

from collections.abc import Callable

from .admin import self_key
from .journal import Journal, MemoryJournal
from .process import Process
from .send import Settings, Steps
from .types import Key


class Gate(Settings):
    """Settings of a client that guards."""

    journal: Journal | None
    memory: MemoryJournal  # used instead of a journal if the service remembers redemptions
    redeeming: bool | None  # None: the role of the key decides
    elsewhere: bool  # the bodies' payment provider redeems
    own: Key | None  # the record of the API key, once it was read
    process: Callable[[], Process]  # returns the state of the present process


def own_key(gate: Gate) -> Steps[Key]:
    if gate.own is None:
        gate.own = yield from self_key(gate)
    return gate.own


def redeems(gate: Gate) -> Steps[bool]:
    if gate.redeeming is None:
        own = yield from own_key(gate)
        gate.redeeming = own.role == "gateway" or "checks:redeem" in (own.scopes or [])
    return gate.redeeming


def journal_of(gate: Gate) -> Steps[Journal]:
    redeem = yield from redeems(gate)
    if gate.journal is not None:
        return gate.journal
    if not redeem:
        raise TypeError("a guard whose key does not redeem needs a journal: Spendgate(..., journal='spendgate.db')")
    if not (yield from own_key(gate)).principal:
        raise TypeError(
            "without a principal the service forgets with this API key what was carried out: give the key a principal, "
            "the same as that of the key that replaces it, or the guard a journal: Spendgate(..., journal='spendgate.db')"
        )
    return gate.memory
