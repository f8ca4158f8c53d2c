"""Deliveries of webhooks, as Standard Webhooks 1.0 signs them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping, Sequence

from .errors import BadSignature
from .types import Event
from .wire import decode, read

TOLERANCE = 300  # seconds


def verify_webhook(
    secret: str | Sequence[str],
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    body: bytes,
    *,
    now: float | None = None,
) -> Event:
    """Returns the event of a delivery, or raises BadSignature. body has the bytes as received.

    Events come at least once, and in no particular order: drop an event whose id you had. After a rotation give both secrets.
    """
    by_name = {name.lower(): value for name, value in dict(headers).items()}
    try:
        message_id, sent, signatures = (by_name[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise BadSignature(f"there is no header {missing}") from None
    if not (sent.isascii() and sent.isdigit() and len(sent) < 15):
        raise BadSignature("the timestamp is none")
    if abs((time.time() if now is None else now) - int(sent)) > TOLERANCE:
        raise BadSignature("the timestamp is more than five minutes off")
    signed = f"{message_id}.{sent}.".encode() + body
    for one in [secret] if isinstance(secret, str) else secret:
        try:
            key = base64.b64decode(one.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError("a secret is whsec_ and base64") from None
        expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        for signature in signatures.split(" "):
            if hmac.compare_digest(expected.encode(), signature.encode()):
                return read(Event, decode(body))
    raise BadSignature("no signature fits")
