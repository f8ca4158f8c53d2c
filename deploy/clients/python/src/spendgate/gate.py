"""The common part of both clients: their options, and everything that does not take time."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from . import api, settings
from .guarded import Guarded, Member
from .errors import SpendgateError
from .journal import Journal, MemoryJournal, SQLiteJournal
from .permit import Intent, Terms
from .process import Process
from .types import ActionType

G = TypeVar("G", bound="Gate")
Trace = Callable[[], "tuple[str, str] | None"]


class Gate(settings.Gate):
    """Options of a client. Its textual forms show no key."""

    _new_http: Callable[[], Any]

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        admin_key: str = "",
        agent_id: str | None = None,
        policy_id: str | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        redeem: bool | None = None,
        attempts: int = 4,
        timeout: float = 10,
        max_wait: float = 60,
        deadline: float | None = None,
        trace: Trace | None = None,
        user_agent: str = "spendgate-python",
        http: Any = None,
    ) -> None:
        """Checks the options; it sends nothing.

        agent_id and policy_id are used for actions that name none. journal is what a guard writes into: a path or a
        store. redeem says whether the guard redeems checks. None: the role of the key decides. False: the payment
        provider that a body calls redeems them if the policy requires that. attempts is the maximum for one request,
        timeout the seconds for each attempt, max_wait the longest Retry-After that is waited for, and deadline the
        seconds for a request with all its attempts. trace returns the W3C traceparent and tracestate that requests
        continue. http is the httpx client to use in this process; a process that is forked from it cannot use it.
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
        self.journal = SQLiteJournal(journal) if isinstance(journal, (str, os.PathLike)) else journal
        self.memory, self.redeeming = MemoryJournal(), redeem
        self.elsewhere, self.own = redeem is False, None
        self.attempts, self.timeout, self.max_wait, self.deadline = attempts, timeout, max_wait, deadline
        self._given = http is not None
        self._processes = {os.getpid(): Process(self._new_http() if http is None else http)}
        self.identify = _identification(api_key, admin_key, user_agent, trace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def process(self) -> Process:
        """The state of this process. A forked process does not touch what it inherited: closing a connection could send on it."""
        pid = os.getpid()
        return self._processes.get(pid) or self._processes.setdefault(pid, Process(None if self._given else self._new_http()))

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
        if admin and admin_key:
            headers["X-Admin-Key"] = admin_key
        if not admin and api_key:
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


def intent(
    gate: Gate,
    action_type: ActionType | None = None,
    *,
    amount: api.Amount,
    currency: str,
    counterparty: str,
    idempotency_key: str | None = None,
    agent_id: str | None = None,
    policy_id: str | None = None,
    payment_method: str | None = None,
    merchant_or_vendor: str | None = None,
    reason_text: str | None = None,
    approval_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    provider_key: bool = False,
    provider_key_hours: float = 24,
    failed_on: tuple[type[BaseException], ...] = (),
    wait: float = 0,
) -> Intent:
    """Asks whether an action may be carried out.

    As the context of a with statement it runs the body only if the action may be carried out, like guard(). Then the
    last four parameters have the same meaning as there, and idempotency_key is required. Otherwise a missing key is
    generated for the repetitions of this call.
    """
    action = api.action(
        agent_id or gate.agent_id, policy_id or gate.policy_id, amount, currency, counterparty,
        action_type=action_type, idempotency_key=idempotency_key, payment_method=payment_method,
        merchant_or_vendor=merchant_or_vendor, reason_text=reason_text, approval_id=approval_id, metadata=metadata,
    )
    return Intent(action, Terms(provider_key, provider_key_hours, failed_on, wait))


def guarding(
    gate: Gate,
    action_type: ActionType,
    *,
    key: Member,
    amount: Member = None,
    currency: Member = None,
    counterparty: Member = None,
    agent_id: Member = None,
    policy_id: Member = None,
    payment_method: Member = None,
    merchant_or_vendor: Member = None,
    reason_text: Member = None,
    metadata: Member = None,
    provider_key: bool = False,
    provider_key_hours: float = 24,
    failed_on: tuple[type[BaseException], ...] = (),
    wait: float = 0,
    reference: Callable[[Any], str | None] | None = None,
) -> Callable[[Callable[..., Any]], Guarded]:
    """Guards the function that moves the money.

    key and the members of the action are a text with {names} of the call's arguments, a function of them, or a value;
    amount, currency and counterparty are by default the arguments of these names. The function's parameter check_id, if
    it has one, gets the check's id: the idempotency key for the provider. provider_key says that the provider accepts
    it; then a body in doubt is repeated under it if it began less than provider_key_hours ago. failed_on are the errors
    that mean that nothing was moved. After any other error the action is in doubt, as it is when another process repeats
    it meanwhile. wait is how many seconds people have to decide before ApprovalPending is raised. reference makes the
    reference of the report from the function's result.
    """
    members = {
        "idempotency_key": key, "action_type": action_type, "amount": amount, "currency": currency, "counterparty": counterparty,
        "agent_id": agent_id, "policy_id": policy_id, "payment_method": payment_method, "merchant_or_vendor": merchant_or_vendor,
        "reason_text": reason_text, "metadata": metadata,
    }
    return lambda function: Guarded(function, members, Terms(provider_key, provider_key_hours, failed_on, wait), reference)
