"""The operations of authors and administrators, and the service's health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal

from . import types as t
from .api import Amount, Query, fetch, query, when
from .send import Request, Settings, Steps, get, path, send
from .wire import money


def create_policy(
    settings: Settings,
    *,
    name: str,
    rules: Sequence[Mapping[str, Any]],
    policy_id: str | None = None,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    redeem: Literal["required"] | None = None,
    redeem_within_minutes: int | None = None,
    changes: Mapping[str, Any] | None = None,
    note: str | None = None,
    drop_budgets: Sequence[str] | None = None,
    replaces: int | None = None,
) -> Steps[t.Policy]:
    """Stores a policy's next version. With replaces it does so only if that version is in force (0: if there is none).
    The request is not repeated when the version may have been stored: then look with policy()."""
    content = {member: value for member, value in _given(locals()).items() if member != "replaces"}
    headers = {} if replaces is None else {"If-Match": str(replaces)}
    return fetch(settings, Request("POST", "/v1/policies", content, status=201, repeatable=False, headers=headers), t.Policy)


def policy(settings: Settings, policy_id: str, *, version: int | None = None) -> Steps[t.Policy]:
    """Reads a version of a policy, by default the latest."""
    return fetch(settings, get(path("policies", policy_id), {"version": version}), t.Policy)


def policies(settings: Settings, *, limit: int | None = None) -> Query[t.Policy]:
    """The latest versions of all policies."""
    return query(t.Policy, "/v1/policies", limit=limit)


def policy_versions(settings: Settings, policy_id: str, *, limit: int | None = None) -> Query[t.PolicyVersion]:
    """A policy's versions, newest first, with their authors and notes."""
    return query(t.PolicyVersion, path("policies", policy_id, "versions"), limit=limit)


def put_draft(
    settings: Settings,
    policy_id: str,
    /,
    *,
    name: str,
    rules: Sequence[Mapping[str, Any]],
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    redeem: Literal["required"] | None = None,
    redeem_within_minutes: int | None = None,
    changes: Mapping[str, Any] | None = None,
    note: str | None = None,
    replaces: str | None = None,
) -> Steps[t.Draft]:
    """Stores a policy's draft, in place of the one before. Storing the same draft again changes nothing. replaces is the
    draft_hash of the draft that it replaces; that of another author must be given."""
    content = {member: value for member, value in _given(locals()).items() if member not in ("policy_id", "replaces")}
    return fetch(settings, Request("PUT", path("policies", policy_id, "draft"), content, headers=_matching(replaces)), t.Draft)


def _matching(draft_hash: str | None) -> dict[str, str]:
    return {} if draft_hash is None else {"If-Match": draft_hash}


def draft(settings: Settings, policy_id: str) -> Steps[t.Draft]:
    """Reads a policy's draft."""
    return fetch(settings, get(path("policies", policy_id, "draft")), t.Draft)


def draft_report(settings: Settings, policy_id: str) -> Steps[t.DraftReport]:
    """Reads the report that compares the draft's decisions with those made since it was put, as far as it is known."""
    return fetch(settings, Request("GET", path("policies", policy_id, "draft", "report"), again=202), t.DraftReport)


def delete_draft(settings: Settings, policy_id: str, *, draft_hash: str | None = None) -> Steps[None]:
    """Deletes the draft; that of another author only by its draft_hash. The request is not repeated when it may have been
    carried out."""
    where, headers = path("policies", policy_id, "draft"), _matching(draft_hash)
    yield from send(settings, Request("DELETE", where, status=204, repeatable=False, headers=headers))


def approve_draft(
    settings: Settings, policy_id: str, draft_hash: str, *, note: str | None = None, drop_budgets: Sequence[str] | None = None
) -> Steps[t.Draft]:
    """Approves the draft with that hash, if the version in force requires approvals. Approving again is a replay."""
    given = (("draft_hash", draft_hash), ("note", note), ("drop_budgets", drop_budgets))
    content = {name: value for name, value in given if value is not None}
    return fetch(settings, Request("POST", path("policies", policy_id, "draft", "approve"), content), t.Draft)


def reject_draft(settings: Settings, policy_id: str, draft_hash: str, *, note: str | None = None) -> Steps[t.Draft]:
    """Rejects the draft with that hash, if the version in force requires approvals. Rejecting again is a replay."""
    content = {"draft_hash": draft_hash} if note is None else {"draft_hash": draft_hash, "note": note}
    return fetch(settings, Request("POST", path("policies", policy_id, "draft", "reject"), content), t.Draft)


def promote_draft(
    settings: Settings,
    policy_id: str,
    version: int,
    *,
    draft_hash: str | None = None,
    note: str | None = None,
    drop_budgets: Sequence[str] | None = None,
) -> Steps[t.Policy]:
    """Makes the draft the next version if the given version is in force. If draft_hash is given, the draft must have it.
    The request is not repeated when it may have been carried out."""
    given = (("draft_hash", draft_hash), ("note", note), ("drop_budgets", drop_budgets))
    content = {name: value for name, value in given if value is not None}
    where = path("policies", policy_id, "draft", "promote")
    return fetch(settings, Request("POST", where, content, status=201, repeatable=False, headers={"If-Match": str(version)}), t.Policy)


def create_freeze(
    settings: Settings,
    scope: Mapping[str, Any],
    reason: str,
    *,
    until: str | datetime | None = None,
    idempotency_key: str | None = None,
) -> Steps[t.Freeze]:
    """Stops everything in a scope, such as {"agent_id": "a"}, until people release it. It is repeated only with an idempotency_key."""
    given = (("scope", scope), ("reason", reason), ("until", until), ("idempotency_key", idempotency_key))
    content = {name: value for name, value in given if value is not None}
    repeatable = idempotency_key is not None
    return fetch(settings, Request("POST", "/v1/freezes", content, status=201, again=200, repeatable=repeatable), t.Freeze)


def freeze(settings: Settings, freeze_id: str) -> Steps[t.Freeze]:
    return fetch(settings, get(path("freezes", freeze_id)), t.Freeze)


def freezes(
    settings: Settings,
    *,
    active: bool | None = None,
    policy_id: str | None = None,
    agent_id: str | None = None,
    principal: str | None = None,
    counterparty: str | None = None,
    limit: int | None = None,
) -> Query[t.Freeze]:
    """The freezes, newest first."""
    text = None if active is None else str(active).lower()
    return query(
        t.Freeze, "/v1/freezes", active=text, limit=limit,
        policy_id=policy_id, agent_id=agent_id, principal=principal, counterparty=counterparty,
    )


def release_freeze(settings: Settings, freeze_id: str, note: str) -> Steps[t.Freeze]:
    """Releases a freeze, alone or as one of the people who are required. Releasing again is a replay."""
    return fetch(settings, Request("POST", path("freezes", freeze_id, "release"), {"note": note}), t.Freeze)


def create_grant(
    settings: Settings,
    policy_id: str,
    rule_id: str,
    *,
    until: str | datetime,
    note: str,
    per: Mapping[str, Any] | None = None,
    add_amount: Amount | None = None,
    add_count: int | None = None,
    idempotency_key: str | None = None,
) -> Steps[t.Grant]:
    """Raises the limit of one counter of a budget until a time, by one of add_amount and add_count. It is repeated only with an
    idempotency_key."""
    content = _given(locals())
    if add_amount is not None:
        content["add_amount"] = money(add_amount)
    return fetch(settings, Request("POST", "/v1/grants", content, status=201, again=200, repeatable=idempotency_key is not None), t.Grant)


def grant(settings: Settings, grant_id: str) -> Steps[t.Grant]:
    return fetch(settings, get(path("grants", grant_id)), t.Grant)


def grants(
    settings: Settings,
    *,
    policy_id: str | None = None,
    rule_id: str | None = None,
    agent_id: str | None = None,
    status: t.GrantStatus | None = None,
    limit: int | None = None,
) -> Query[t.Grant]:
    """The grants, newest first."""
    given = {name: value for name, value in locals().items() if name != "settings"}
    return query(t.Grant, "/v1/grants", **given)


def approve_grant(settings: Settings, grant_id: str, note: str | None = None) -> Steps[t.Grant]:
    """Approves a grant that waits for people. Approving again is a replay."""
    return fetch(settings, Request("POST", path("grants", grant_id, "approve"), {} if note is None else {"note": note}), t.Grant)


def revoke_grant(settings: Settings, grant_id: str, note: str | None = None) -> Steps[t.Grant]:
    """Ends a grant; what passed stays. Revoking again is a replay."""
    return fetch(settings, Request("POST", path("grants", grant_id, "revoke"), {} if note is None else {"note": note}), t.Grant)


def create_backtest(
    settings: Settings,
    *,
    policy_id: str,
    from_: str | date,
    to: str | date,
    rules: Sequence[Mapping[str, Any]] | None = None,
    version: int | None = None,
    state: t.BacktestState | None = None,
) -> Steps[t.Backtest]:
    """Starts a backtest of recorded checks by rules, or by a version. It is not repeated when it may have been stored."""
    content = {name.rstrip("_"): member for name, member in _given(locals()).items()}
    return fetch(settings, Request("POST", "/v1/backtests", content, status=202, repeatable=False), t.Backtest)


def backtest(settings: Settings, backtest_id: str) -> Steps[t.Backtest]:
    """Reads a backtest, with its report once it has succeeded."""
    return fetch(settings, get(path("backtests", backtest_id)), t.Backtest)


def cancel_backtest(settings: Settings, backtest_id: str) -> Steps[t.Backtest]:
    """Cancels a backtest that has not ended."""
    return fetch(settings, Request("POST", path("backtests", backtest_id, "cancel")), t.Backtest)


def backtests(
    settings: Settings, *, policy_id: str | None = None, status: t.BacktestStatus | None = None, limit: int | None = None
) -> Query[t.BacktestSummary]:
    """The backtests of the last 30 days, newest first, without rules and reports."""
    return query(t.BacktestSummary, "/v1/backtests", policy_id=policy_id, status=status, limit=limit)


def flips(settings: Settings, backtest_id: str, *, limit: int | None = None) -> Query[t.Flip]:
    """The checks that a backtest's candidate decides otherwise, in their order."""
    return query(t.Flip, path("backtests", backtest_id, "flips"), limit=limit)


def stats(
    settings: Settings,
    *,
    from_: str | date,
    to: str | date,
    step: Literal["minute", "hour", "day"],
    policy_id: str | None = None,
    agent_id: str | None = None,
) -> Steps[t.Stats]:
    """Counts checks by decision, exactly, for every step of a range."""
    given = {name.rstrip("_"): value for name, value in _given(locals()).items()}
    return fetch(settings, get("/v1/stats", given), t.Stats)


def sums(
    settings: Settings,
    *,
    agent_id: str | None = None,
    policy_id: str | None = None,
    counterparty: str | None = None,
    principal: str | None = None,
    rule_id: str | None = None,
    from_: str | date | None = None,
    to: str | date | None = None,
) -> Steps[t.Sums]:
    """Adds up the amounts of checks by currency and decision: of the newest 100,000 of the range, if `since` is set."""
    given = {name.rstrip("_"): value for name, value in _given(locals()).items()}
    return fetch(settings, get("/v1/sums", given), t.Sums)


def create_key(
    settings: Settings,
    *,
    name: str,
    rate_limit_rpm: int | None = None,
    role: str | None = None,
    scopes: Sequence[str] | None = None,
    policy_ids: Sequence[str] | None = None,
    agent_ids: Sequence[str] | None = None,
    principal: str | None = None,
    owner: str | None = None,
    groups: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> Steps[t.NewKey]:
    """Makes an API key, with the admin key. It is not repeated when the key may have been made."""
    content = _given(locals())
    return fetch(settings, Request("POST", "/v1/keys", content, status=201, repeatable=False, admin=True), t.NewKey)


def update_key(settings: Settings, key_id: str, /, **changes: Any) -> Steps[t.Key]:
    """Changes the given members of a key, with the admin key; None removes a member."""
    content = {name: when(c) if isinstance(c, datetime) else c for name, c in changes.items()}
    return fetch(settings, Request("PATCH", path("keys", key_id), content, admin=True), t.Key)


def keys(settings: Settings, *, limit: int | None = None) -> Query[t.Key]:
    """The API keys, with the admin key, newest first."""
    return query(t.Key, "/v1/keys", admin=True, limit=limit)


def sessions(settings: Settings, *, limit: int | None = None) -> Query[t.Session]:
    """The people who are signed in, with the admin key, newest first."""
    return query(t.Session, "/v1/sessions", admin=True, limit=limit)


def end_session(settings: Settings, session_id: str) -> Steps[None]:
    """Ends a session, with the admin key. When it returns, the session has ended on every node."""
    yield from send(settings, Request("DELETE", path("sessions", session_id), status=204, repeatable=False, admin=True))


def self_key(settings: Settings) -> Steps[t.Key]:
    """Reads the record of the client's own API key."""
    return fetch(settings, get("/v1/keys/self"), t.Key)


def create_webhook(settings: Settings, *, url: str, event_types: Sequence[str]) -> Steps[t.NewWebhook]:
    """Makes a webhook that delivers events to a URL, with the admin key. It is not repeated when it may have been made."""
    content = {"url": url, "event_types": list(event_types)}
    return fetch(settings, Request("POST", "/v1/webhooks", content, status=201, repeatable=False, admin=True), t.NewWebhook)


def webhooks(settings: Settings) -> Query[t.Webhook]:
    """The webhooks, with the admin key, newest first."""
    return query(t.Webhook, "/v1/webhooks", admin=True)


def webhook(settings: Settings, webhook_id: str) -> Steps[t.Webhook]:
    """Reads a webhook, with the admin key."""
    return fetch(settings, get(path("webhooks", webhook_id), admin=True), t.Webhook)


def update_webhook(
    settings: Settings,
    webhook_id: str,
    *,
    url: str | None = None,
    event_types: Sequence[str] | None = None,
    status: Literal["active", "disabled"] | None = None,
) -> Steps[t.Webhook]:
    """Changes the given members of a webhook, with the admin key."""
    content = {name: value for name, value in _given(locals()).items() if name != "webhook_id"}
    return fetch(settings, Request("PATCH", path("webhooks", webhook_id), content, admin=True), t.Webhook)


def delete_webhook(settings: Settings, webhook_id: str) -> Steps[None]:
    """Deletes a webhook and its undelivered events, with the admin key."""
    yield from send(settings, Request("DELETE", path("webhooks", webhook_id), status=204, repeatable=False, admin=True))


def rotate_webhook(settings: Settings, webhook_id: str) -> Steps[t.NewWebhook]:
    """Gives a webhook a new secret, with the admin key; for 24 hours the old one signs deliveries, too."""
    return fetch(settings, Request("POST", path("webhooks", webhook_id, "rotate"), repeatable=False, admin=True), t.NewWebhook)


def retry_webhook(settings: Settings, webhook_id: str) -> Steps[t.Retried]:
    """Makes the service retry now all events that wait for a retry, with the admin key."""
    return fetch(settings, Request("POST", path("webhooks", webhook_id, "retry"), status=202, repeatable=False, admin=True), t.Retried)


def deliveries(settings: Settings, webhook_id: str, *, limit: int | None = None, status: str | None = None) -> Query[t.Delivery]:
    """The attempts of the last seven days, with the admin key, newest first; status "failed" leaves successful ones out."""
    return query(t.Delivery, path("webhooks", webhook_id, "deliveries"), admin=True, limit=limit, status=status)


def replay_delivery(settings: Settings, webhook_id: str, delivery_id: str) -> Steps[t.Delivery]:
    """Makes the service deliver the event of an attempt again, with the admin key."""
    where = path("webhooks", webhook_id, "deliveries", delivery_id, "replay")
    return fetch(settings, Request("POST", where, status=202, repeatable=False, admin=True), t.Delivery)


def health(settings: Settings) -> Steps[t.Health]:
    """Asks whether the service answers. It needs no key."""
    return fetch(settings, Request("GET", "/health"), t.Health)


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: when(argument) if isinstance(argument, date) else argument
        for name, argument in arguments.items()
        if name != "settings" and argument is not None
    }
