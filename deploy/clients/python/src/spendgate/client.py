"""Spendgate, the blocking client."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import httpx

from . import admin, api, gate, guard
from .api import When
from .guarded import Guarded, is_coroutine, takes_permit
from .http import blocking, drive
from .permit import Permit
from .send import Step, Steps
from .types import ActionType, Event, Page

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Listing(Generic[T]):
    """A list, read page by page as it is iterated."""

    def __init__(self, client: Spendgate, query: api.Query[T]) -> None:
        self._client, self._query = client, query

    def page(self, cursor: str | None = None) -> Page[T]:
        return self._client._run(self._query.page(self._client, cursor))

    def __iter__(self) -> Iterator[T]:
        cursor = None
        while True:
            page = self.page(cursor)
            yield from page.data
            if not page.has_more:
                return
            cursor = page.next_cursor


def _blocking(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Spendgate, P], T]:
    @functools.wraps(steps)
    def method(self: Spendgate, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(steps(self, *args, **kwargs))

    return method


def _listing(query: Callable[Concatenate[Any, P], api.Query[T]]) -> Callable[Concatenate[Spendgate, P], Listing[T]]:
    @functools.wraps(query)
    def method(self: Spendgate, /, *args: P.args, **kwargs: P.kwargs) -> Listing[T]:
        return Listing(self, query(self, *args, **kwargs))

    return method


def _guarding(
    guarding: Callable[Concatenate[Any, P], Callable[[Callable[..., Any]], Guarded]]
) -> Callable[Concatenate[Spendgate, P], Callable[[F], F]]:
    @functools.wraps(guarding)
    def method(self: Spendgate, /, *args: P.args, **kwargs: P.kwargs) -> Callable[[F], F]:
        make = guarding(self, *args, **kwargs)

        def decorate(function: F) -> F:
            if is_coroutine(function):
                raise TypeError("a coroutine is guarded by AsyncSpendgate")
            guarded = make(function)

            def carry(*args: Any, **kwargs: Any) -> guard.Carried:
                bound = guarded.bind(args, kwargs)
                return self._run(guard.carry(self, guarded.intent(bound, self), lambda permit: guarded.call(bound, permit)))

            return cast(F, guarded.dress(lambda *args, **kwargs: carry(*args, **kwargs).unwrap(), carry))

        return decorate

    return method


class Spendgate(gate.Gate):
    """A blocking client. It may be shared by threads."""

    _new_http = staticmethod(httpx.Client)
    _pause = staticmethod(time.sleep)

    check = _blocking(gate.check)
    get_check = _blocking(api.get_check)
    report_outcome = _blocking(api.report_outcome)
    get_outcome = _blocking(api.get_outcome)
    redeem = _blocking(api.redeem)
    in_doubt = _blocking(api.in_doubt)
    simulate = _blocking(api.simulate)
    approval = _blocking(api.approval)
    wait_for_approval = _blocking(api.wait_for_approval)
    approve = _blocking(api.approve)
    deny = _blocking(api.deny)
    checks = _listing(api.checks)
    violations = _listing(api.violations)
    approvals = _listing(api.approvals)
    waiting = _listing(api.waiting)
    budgets = _listing(api.budgets)
    events_page = _blocking(api.events_page)
    create_policy = _blocking(admin.create_policy)
    policy = _blocking(admin.policy)
    policies = _listing(admin.policies)
    policy_versions = _listing(admin.policy_versions)
    put_draft = _blocking(admin.put_draft)
    draft = _blocking(admin.draft)
    draft_report = _blocking(admin.draft_report)
    delete_draft = _blocking(admin.delete_draft)
    approve_draft = _blocking(admin.approve_draft)
    reject_draft = _blocking(admin.reject_draft)
    promote_draft = _blocking(admin.promote_draft)
    create_freeze = _blocking(admin.create_freeze)
    freeze = _blocking(admin.freeze)
    freezes = _listing(admin.freezes)
    release_freeze = _blocking(admin.release_freeze)
    create_grant = _blocking(admin.create_grant)
    grant = _blocking(admin.grant)
    grants = _listing(admin.grants)
    approve_grant = _blocking(admin.approve_grant)
    revoke_grant = _blocking(admin.revoke_grant)
    create_backtest = _blocking(admin.create_backtest)
    backtest = _blocking(admin.backtest)
    cancel_backtest = _blocking(admin.cancel_backtest)
    backtests = _listing(admin.backtests)
    flips = _listing(admin.flips)
    stats = _blocking(admin.stats)
    sums = _blocking(admin.sums)
    create_key = _blocking(admin.create_key)
    update_key = _blocking(admin.update_key)
    keys = _listing(admin.keys)
    sessions = _listing(admin.sessions)
    end_session = _blocking(admin.end_session)
    self_key = _blocking(admin.self_key)
    create_webhook = _blocking(admin.create_webhook)
    webhooks = _listing(admin.webhooks)
    webhook = _blocking(admin.webhook)
    update_webhook = _blocking(admin.update_webhook)
    delete_webhook = _blocking(admin.delete_webhook)
    rotate_webhook = _blocking(admin.rotate_webhook)
    retry_webhook = _blocking(admin.retry_webhook)
    deliveries = _listing(admin.deliveries)
    replay_delivery = _blocking(admin.replay_delivery)
    health = _blocking(admin.health)
    guard = _guarding(gate.guarding)

    def pay(self, body: Callable[[Permit], T], /, action_type: ActionType, *, payment_key: str, **action: Any) -> T | str | None:
        """Runs body(permit) under the guard, at most once for a payment_key. The other parameters are those of check() and guard().

        It returns what the body does, or the recorded reference of a payment that was carried out before.
        """
        intent = gate.intent(self, action_type, payment_key=payment_key, **action)
        if is_coroutine(body):
            raise TypeError("a coroutine is guarded by AsyncSpendgate")
        takes_permit(body)
        result: T | str | None = self._run(guard.carry(self, intent, body)).unwrap()
        return result

    def events(self, *, after: int = 0, type: str | None = None, from_: When = None) -> Iterator[Event]:
        """Yields the events after a sequence, as far as there are any. Store the last one's sequence with the effects of the events."""
        while True:
            page = self.events_page(after=after, type=type, from_=from_, limit=100)
            yield from page.data
            if not page.has_more:
                return
            after = page.next_after

    def close(self) -> None:
        http = self.process().http
        if http is not None:
            http.close()

    def __enter__(self) -> Spendgate:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        return drive(steps, self._take)

    def _take(self, step: Step) -> Any:
        return blocking(self._http, self._pause)(step)
