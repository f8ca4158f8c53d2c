"""AsyncSpendgate, the asynchronous client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import closing
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, cast

import anyio
import httpx

from . import admin, api, gate, guard
from .api import When
from .errors import NoAnswer
from .guarded import Guarded, is_coroutine, takes_permit
from .http import Body, lost
from .permit import Permit
from .send import Pause, Reply, Step, Steps, Transfer
from .types import NO_CONDITION, ActionType, Answer, Event, Page

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Checking:
    """A check, to be awaited: `if gate.check(...):` is refused."""

    def __init__(self, client: AsyncSpendgate, steps: Steps[Answer]) -> None:
        self._client, self._steps = client, steps

    def __bool__(self) -> NoReturn:
        raise TypeError(NO_CONDITION)

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._client._run(self._steps).__await__()


class AsyncListing(Generic[T]):
    """A list, read page by page as it is iterated."""

    def __init__(self, client: AsyncSpendgate, query: api.Query[T]) -> None:
        self._client, self._query = client, query

    async def page(self, cursor: str | None = None) -> Page[T]:
        return await self._client._run(self._query.page(self._client, cursor))

    async def __aiter__(self) -> AsyncIterator[T]:
        cursor = None
        while True:
            page = await self.page(cursor)
            for element in page.data:
                yield element
            if not page.has_more:
                return
            cursor = page.next_cursor


def _awaiting(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[AsyncSpendgate, P], Coroutine[Any, Any, T]]:
    @functools.wraps(steps)
    async def method(self: AsyncSpendgate, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(steps(self, *args, **kwargs))

    return method


def _listing(query: Callable[Concatenate[Any, P], api.Query[T]]) -> Callable[Concatenate[AsyncSpendgate, P], AsyncListing[T]]:
    @functools.wraps(query)
    def method(self: AsyncSpendgate, /, *args: P.args, **kwargs: P.kwargs) -> AsyncListing[T]:
        return AsyncListing(self, query(self, *args, **kwargs))

    return method


def _checking(steps: Callable[Concatenate[Any, P], Steps[Answer]]) -> Callable[Concatenate[AsyncSpendgate, P], Checking]:
    @functools.wraps(steps)
    def method(self: AsyncSpendgate, /, *args: P.args, **kwargs: P.kwargs) -> Checking:
        return Checking(self, steps(self, *args, **kwargs))

    return method


def _guarding(
    guarding: Callable[Concatenate[Any, P], Callable[[Callable[..., Any]], Guarded]]
) -> Callable[Concatenate[AsyncSpendgate, P], Callable[[F], F]]:
    @functools.wraps(guarding)
    def method(self: AsyncSpendgate, /, *args: P.args, **kwargs: P.kwargs) -> Callable[[F], F]:
        make = guarding(self, *args, **kwargs)

        def decorate(function: F) -> F:
            if not inspect.iscoroutinefunction(function):
                raise TypeError("a function that is no coroutine is guarded by Spendgate")
            guarded = make(function)

            async def carry(*args: Any, **kwargs: Any) -> guard.Carried:
                bound = guarded.bind(args, kwargs)
                return await self._run(guard.carry(self, guarded.intent(bound, self), lambda permit: guarded.call(bound, permit)))

            async def call(*args: Any, **kwargs: Any) -> Any:
                return (await carry(*args, **kwargs)).unwrap()

            return cast(F, guarded.dress(call, carry))

        return decorate

    return method


class AsyncSpendgate(gate.Gate):
    """An asynchronous client, for asyncio or trio."""

    _new_http = staticmethod(httpx.AsyncClient)
    _pause = staticmethod(anyio.sleep)

    check = _checking(gate.check)
    get_check = _awaiting(api.get_check)
    report_outcome = _awaiting(api.report_outcome)
    get_outcome = _awaiting(api.get_outcome)
    redeem = _awaiting(api.redeem)
    in_doubt = _awaiting(api.in_doubt)
    simulate = _awaiting(api.simulate)
    approval = _awaiting(api.approval)
    wait_for_approval = _awaiting(api.wait_for_approval)
    approve = _awaiting(api.approve)
    deny = _awaiting(api.deny)
    checks = _listing(api.checks)
    violations = _listing(api.violations)
    approvals = _listing(api.approvals)
    waiting = _listing(api.waiting)
    budgets = _listing(api.budgets)
    events_page = _awaiting(api.events_page)
    create_policy = _awaiting(admin.create_policy)
    policy = _awaiting(admin.policy)
    policies = _listing(admin.policies)
    policy_versions = _listing(admin.policy_versions)
    put_draft = _awaiting(admin.put_draft)
    draft = _awaiting(admin.draft)
    draft_report = _awaiting(admin.draft_report)
    delete_draft = _awaiting(admin.delete_draft)
    approve_draft = _awaiting(admin.approve_draft)
    reject_draft = _awaiting(admin.reject_draft)
    promote_draft = _awaiting(admin.promote_draft)
    create_freeze = _awaiting(admin.create_freeze)
    freeze = _awaiting(admin.freeze)
    freezes = _listing(admin.freezes)
    release_freeze = _awaiting(admin.release_freeze)
    create_grant = _awaiting(admin.create_grant)
    grant = _awaiting(admin.grant)
    grants = _listing(admin.grants)
    approve_grant = _awaiting(admin.approve_grant)
    revoke_grant = _awaiting(admin.revoke_grant)
    create_backtest = _awaiting(admin.create_backtest)
    backtest = _awaiting(admin.backtest)
    cancel_backtest = _awaiting(admin.cancel_backtest)
    backtests = _listing(admin.backtests)
    flips = _listing(admin.flips)
    stats = _awaiting(admin.stats)
    sums = _awaiting(admin.sums)
    create_key = _awaiting(admin.create_key)
    update_key = _awaiting(admin.update_key)
    keys = _listing(admin.keys)
    sessions = _listing(admin.sessions)
    end_session = _awaiting(admin.end_session)
    self_key = _awaiting(admin.self_key)
    create_webhook = _awaiting(admin.create_webhook)
    webhooks = _listing(admin.webhooks)
    webhook = _awaiting(admin.webhook)
    update_webhook = _awaiting(admin.update_webhook)
    delete_webhook = _awaiting(admin.delete_webhook)
    rotate_webhook = _awaiting(admin.rotate_webhook)
    retry_webhook = _awaiting(admin.retry_webhook)
    deliveries = _listing(admin.deliveries)
    replay_delivery = _awaiting(admin.replay_delivery)
    health = _awaiting(admin.health)
    guard = _guarding(gate.guarding)

    async def pay(
        self, body: Callable[[Permit], Awaitable[T]], /, action_type: ActionType, *, payment_key: str, **action: Any
    ) -> T | str | None:
        """Awaits body(permit) under the guard, at most once for a payment_key. The other parameters are those of check() and guard().

        It returns what the body does, or the recorded reference of a payment that was carried out before.
        """
        intent = gate.intent(self, action_type, payment_key=payment_key, **action)
        if not is_coroutine(body):
            raise TypeError("a function that is no coroutine is guarded by Spendgate")
        takes_permit(body)
        result: T | str | None = (await self._run(guard.carry(self, intent, body))).unwrap()
        return result

    async def events(self, *, after: int = 0, type: str | None = None, from_: When = None) -> AsyncIterator[Event]:
        """Yields the events after a sequence, as far as there are any. Store the last one's sequence with the effects of the events."""
        while True:
            page = await self.events_page(after=after, type=type, from_=from_, limit=100)
            for event in page.data:
                yield event
            if not page.has_more:
                return
            after = page.next_after

    async def close(self) -> None:
        http = self.process().http
        if http is not None:
            await http.aclose()

    async def __aenter__(self) -> AsyncSpendgate:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[T]) -> T:
        answer: Any = None
        failure: Exception | None = None
        with closing(steps):
            while True:
                try:
                    step = steps.send(answer) if failure is None else steps.throw(failure)
                except StopIteration as end:
                    result: T = end.value
                    return result
                answer, failure = None, None
                try:
                    answer = await self._take(step)
                except Exception as error:
                    failure = error

    async def _take(self, step: Step) -> Any:
        if isinstance(step, Pause):
            return await self._pause(step.seconds)
        return await (self._transfer(step) if isinstance(step, Transfer) else step.body())

    async def _transfer(self, t: Transfer) -> Reply | NoAnswer:
        http: httpx.AsyncClient = self._http
        try:
            sent = http.build_request(t.method, t.url, headers=t.headers, content=t.body, timeout=t.timeout)
            # A redirect would send the key to another address.
            response = await http.send(sent, stream=True, follow_redirects=False)
            body = Body(t.timeout)
            try:
                async for piece in response.aiter_raw():
                    body.add(piece)
                return body.reply(response)
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            return lost(error)
        except RuntimeError as error:  # the connection's event loop has ended: the next attempt uses another connection
            if http.is_closed:
                raise
            return NoAnswer(f"no answer from the service: {error}")
