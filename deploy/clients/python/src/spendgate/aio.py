"""AsyncSpendgate, the asynchronous client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, cast

import anyio
import anyio.to_thread
import httpx

from . import admin, api, ending, gate, guard
from .api import When
from .errors import NoAnswer, SpendgateError
from .http import Body, lost
from .guarded import Guarded, unfinished
from .permit import Intent, Permit
from .send import Local, Pause, Reply, Step, Steps, Transfer
from .types import NO_CONDITION, Answer, Event, Page

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Checking:
    """A check: await it for its answer, or use it as the context of a guarded body."""

    def __init__(self, client: AsyncSpendgate, intent: Intent) -> None:
        self._client, self._intent = client, intent

    def __bool__(self) -> NoReturn:
        raise TypeError(NO_CONDITION)

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._ask().__await__()

    async def _ask(self) -> Answer:
        return Answer.of((await self._client._run(guard.ask(self._client, self._intent))).result)

    async def __aenter__(self) -> Permit:
        self._permit = await self._client._run(guard.begin(self._client, self._intent))
        return self._permit

    async def __aexit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._client._run(ending.end(self._client, self._permit, error, self._intent.terms), ends=True)


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


def _checking(intent: Callable[Concatenate[Any, P], Intent]) -> Callable[Concatenate[AsyncSpendgate, P], Checking]:
    @functools.wraps(intent)
    def method(self: AsyncSpendgate, /, *args: P.args, **kwargs: P.kwargs) -> Checking:
        return Checking(self, intent(self, *args, **kwargs))

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

            async def call(*args: Any, **kwargs: Any) -> Any:
                bound = guarded.bind(args, kwargs)
                permit = await self._run(guard.begin(self, guarded.intent(bound, self)))
                try:
                    problem, changed = None, guarded.changed(bound, self, permit)
                except Exception as error:
                    problem, changed = error, True
                if changed:
                    await self._run(ending.refuse(self, permit, guarded.terms, problem), ends=True)
                try:
                    returned = await guarded.call(bound, permit.check_id)
                except BaseException as error:
                    await self._run(ending.end(self, permit, error, guarded.terms), ends=True)
                    raise
                if later := unfinished(returned, "await it in the body"):
                    await self._run(ending.end(self, permit, later, guarded.strict), ends=True)
                guarded.note(permit, returned)
                await self._run(ending.end(self, permit, None, guarded.terms), ends=True)
                return returned

            return cast(F, guarded.dress(call))

        return decorate

    return method


class AsyncSpendgate(gate.Gate):
    """An asynchronous client, for asyncio or trio."""

    _new_http = staticmethod(httpx.AsyncClient)
    _pause = staticmethod(anyio.sleep)

    check = _checking(gate.intent)
    resume = _awaiting(guard.resume)
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
    promote_draft = _awaiting(admin.promote_draft)
    create_backtest = _awaiting(admin.create_backtest)
    backtest = _awaiting(admin.backtest)
    cancel_backtest = _awaiting(admin.cancel_backtest)
    backtests = _listing(admin.backtests)
    flips = _listing(admin.flips)
    stats = _awaiting(admin.stats)
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

    async def _run(self, steps: Steps[T], *, ends: bool = False) -> T:
        """Takes the steps. The end of a body is recorded in the journal even when the task is cancelled."""
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
                except BaseException:
                    if ends:
                        _write_down(steps, step)
                    raise

    async def _take(self, step: Step) -> Any:
        if isinstance(step, Pause):
            return await self._pause(step.seconds)
        if isinstance(step, Local):
            return await anyio.to_thread.run_sync(step.call)
        return await self._transfer(step)

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
            except httpx.HTTPError as error:
                return lost(error, body.reply(response))
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            return lost(error)
        except RuntimeError as error:  # the connection's event loop has ended: the next attempt uses another connection
            if http.is_closed:
                raise
            return NoAnswer(f"no answer from the service: {error}")


def _write_down(steps: Steps[Any], step: Step) -> None:
    """Takes at once the steps that record in the journal how a body ended. resume() reports it."""
    with suppress(StopIteration, SpendgateError):
        while isinstance(step, Local):
            try:
                taken = step.call()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(taken)
