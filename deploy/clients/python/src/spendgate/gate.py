"""The common part of both clients: their options, and everything that does not take time."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from . import api
from .errors import SpendgateError
from .guarded import Guarded, Member
from .http import blocking, drive
from .permit import FailedIf, Intent, Terms
from .process import Process
from .send import Settings, Steps
from .types import ActionType, Answer
from .wire import payable

G = TypeVar("G", bound="Gate")
Trace = Callable[[], "tuple[str, str] | None"]


class Gate(Settings):
    """Options of a client. Its textual forms show no key."""

    _new_http: Callable[[], Any]
    _sleep = staticmethod(time.sleep)  # of the background

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        admin_key: str = "",
        agent_id: str | None = None,
        policy_id: str | None = None,
        attempts: int = 4,
        timeout: float = 10,
        max_wait: float = 60,
        deadline: float | None = None,
        trace: Trace | None = None,
        user_agent: str = "spendgate-python",
        http: Any = None,
    ) -> None:
        """Checks the options; it sends nothing.

        agent_id and policy_id are used for actions that name none. attempts is the maximum for one request, timeout the
        seconds for each attempt, max_wait the longest Retry-After that is waited for, and deadline the seconds for a
        request with all its attempts. trace returns the W3C traceparent and tracestate that requests continue. http is
        the httpx client to use in this process; a process that is forked from it cannot use it.
        """
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.username is not None or url.query or url.fragment:
            raise ValueError("base_url must be http://host:port or https://host, without user, query and fragment")
        if url.path.rstrip("/").endswith("/v1"):
            raise ValueError("base_url must not end with /v1, which the client adds")
        for name, value in (("api_key", api_key), ("admin_key", admin_key), ("user_agent", user_agent)):
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"{name} has a character that no header can carry")
        if attempts < 1 or timeout <= 0:
            raise ValueError("at least one attempt, of more than no time")
        self.base = base_url.rstrip("/")
        self.agent_id, self.policy_id = agent_id, policy_id
        self.attempts, self.timeout, self.max_wait, self.deadline = attempts, timeout, max_wait, deadline
        self._given = http is not None
        self._processes = {os.getpid(): self._process(self._new_http() if http is None else http)}
        self.identify = _identification(api_key, admin_key, user_agent, trace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def process(self) -> Process:
        """The state of this process. A forked process does not touch what it inherited: closing a connection could send on it."""
        pid = os.getpid()
        return self._processes.get(pid) or self._processes.setdefault(pid, self._process(None if self._given else self._new_http()))

    def _process(self, http: Any) -> Process:
        return Process(http, self._deliver, lambda seconds: self._sleep(seconds))

    def _deliver(self, steps: Steps[None]) -> None:
        """Takes steps in a thread of the background, with an httpx client of its own if this one is closed, or belongs to an event loop."""
        if isinstance(self._http, httpx.Client) and not self._http.is_closed:
            return drive(steps, blocking(self._http, self._sleep))
        with httpx.Client() as http:
            return drive(steps, blocking(http, self._sleep))

    @property
    def undelivered(self) -> list[str]:
        """The reports that this process repeats in the background, as the service cannot be reached."""
        return self.process().undelivered

    @property
    def _http(self) -> Any:
        http = self.process().http
        if http is None:
            raise SpendgateError("http is the client of the process that was forked: make a client in this one")
        return http

    def within(self: G, seconds: float) -> G:
        """The same client with a limit of this many seconds for each request, including all its attempts."""
        other = copy.copy(self)
        other.deadline = seconds
        return other


def _identification(api_key: str, admin_key: str, user_agent: str, trace: Trace | None) -> Callable[[bool], dict[str, str]]:
    """Returns a function that has the keys, so that they cannot be printed with the client."""

    def identify(admin: bool) -> dict[str, str]:
        headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        if admin_key and (admin or not api_key):
            headers["X-Admin-Key"] = admin_key
        elif not admin and api_key:
            headers["X-API-Key"] = api_key
        parent, state = (trace() if trace else None) or ("", "")
        if _well_formed(parent):
            headers["traceparent"] = parent
            if state and len(state) <= 512 and state.isascii() and state.isprintable():
                headers["tracestate"] = state
        return headers

    return identify


def _well_formed(parent: str) -> bool:
    parts = parent.split("-")
    return (
        [len(part) for part in parts] == [2, 32, 16, 2]
        and all(digit in "0123456789abcdef" for part in parts for digit in part)
        and parts[0] != "ff"
    )


def check(
    gate: Gate,
    /,
    action_type: ActionType | None = None,
    *,
    amount: api.Amount,
    currency: str,
    counterparty: str,
    agent_id: str | None = None,
    policy_id: str | None = None,
    **members: Any,
) -> Steps[Answer]:
    """Asks whether an action may be carried out. members are those of the API, such as idempotency_key, metadata and payment_key.

    A missing idempotency_key is generated for the repetitions of this call. Only guard() and pay() carry out something.
    """
    return api.check(gate, api.action(
        agent_id or gate.agent_id, policy_id or gate.policy_id, amount, currency, counterparty, action_type=action_type, **members
    ))


def intent(
    gate: Gate,
    /,
    action_type: ActionType,
    *,
    payment_key: str,
    amount: api.Amount,
    currency: str,
    counterparty: str,
    agent_id: str | None = None,
    policy_id: str | None = None,
    payment_method: str | None = None,
    merchant_or_vendor: str | None = None,
    reason_text: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    **terms: Any,
) -> Intent:
    payable(amount, currency)
    action = api.action(
        agent_id or gate.agent_id, policy_id or gate.policy_id, amount, currency, counterparty,
        action_type=action_type, payment_key=payment_key, payment_method=payment_method,
        merchant_or_vendor=merchant_or_vendor, reason_text=reason_text, metadata=metadata,
    )
    return Intent(action, Terms(**terms))


def guarding(
    gate: Gate,
    action_type: ActionType,
    *,
    payment_key: Member,
    amount: Member = None,
    currency: Member = None,
    counterparty: Member = None,
    agent_id: Member = None,
    policy_id: Member = None,
    payment_method: Member = None,
    merchant_or_vendor: Member = None,
    reason_text: Member = None,
    metadata: Member = None,
    wait: float = 0,
    take_over: bool = False,
    take_over_within_hours: int | None = None,
    again_after_hours: int | None = None,
    replace: bool = False,
    failed_if: FailedIf | tuple[FailedIf, ...] = (),
    reference: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[..., Any]], Guarded]:
    """Guards the function that moves the money: it runs at most once for a payment_key, in all processes together.

    payment_key and the members of the action are a text with {names} of the call's arguments, a function of them, or a
    value; amount, currency and counterparty are by default the arguments of these names. The guard fills the function's
    parameters execution_id (the idempotency key for the provider), check_id and permit, if it has them. wait is how many
    seconds people have to decide before ApprovalPending is raised. take_over says that the provider takes the execution_id,
    so that a payment that another process began is carried out again under it. again_after_hours frees the payment so long
    after it was executed, and replace judges another action where nobody has carried one out. failed_if are the errors, and
    predicates of the result, that mean that nothing was moved; any other error leaves the payment in doubt. reference makes
    the reference of the report from the result. A payment that was carried out before gives its recorded reference.
    """
    members = {
        "payment_key": payment_key, "action_type": action_type, "amount": amount, "currency": currency, "counterparty": counterparty,
        "agent_id": agent_id, "policy_id": policy_id, "payment_method": payment_method, "merchant_or_vendor": merchant_or_vendor,
        "reason_text": reason_text, "metadata": metadata,
    }
    terms = Terms(wait, take_over, take_over_within_hours, again_after_hours, replace, failed_if, reference)
    return lambda function: Guarded(function, members, terms)
