"""Sending a request until it succeeds, is refused or should not be sent again.

What the client does is written once, as generators that yield the steps which take time
(Transfer, Pause, Run) and are sent their results. Spendgate takes the steps by blocking,
AsyncSpendgate by awaiting.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, TypeVar, Union
from urllib.parse import quote, urlencode

from .errors import APIError, Differs, Frozen, NoAnswer, SpendgateError
from .types import Outcome
from .wire import decode, encode, read

T = TypeVar("T")

FIRST_BACKOFF, MOST_BACKOFF = 0.1, 5.0  # seconds
MOST_RETRY_AFTER = 24 * 60 * 60
HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT")


@dataclass(frozen=True)
class Request:
    """A request, which may be sent several times."""

    method: str
    path: str
    content: Any = None
    status: int = 200  # of a success
    again: int = 0  # of a success of a request that was made before
    repeatable: bool = True  # it has the same effect if it is sent twice
    admin: bool = False
    wait: int = 0  # how long the service may hold its answer, in seconds
    until: float | None = None  # by the client's clock, instead of the maximum of attempts
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Fails on a success that is not the service's. With it, an answer of another server is asked for again as a lost one.
    accept: Callable[[Reply], object] | None = None


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]

    @property
    def replayed(self) -> bool:
        """Whether an earlier answer was repeated: the header is present and does not deny it."""
        return not all(value.strip().lower() in ("?0", "false") for value in self.header("idempotent-replayed"))

    @property
    def date(self) -> datetime | None:
        """The time of the answer, by the service's clock."""
        try:
            date = parsedate_to_datetime(self.header("date")[0])
        except (IndexError, ValueError, TypeError):
            return None
        return date if date.tzinfo else None

    @property
    def retry_after(self) -> int:
        """Seconds, from a number of them or a date beside that of the answer, up to a day."""
        text = (self.header("retry-after") or [""])[0]
        if text.isascii() and text.isdigit():
            return min(int(text[:20]), MOST_RETRY_AFTER)
        if not HTTP_DATE.fullmatch(text):
            return 0
        try:
            after = parsedate_to_datetime(text) - (self.date or datetime.now(timezone.utc))
        except ValueError:
            return 0
        return min(max(0, math.ceil(after.total_seconds())), MOST_RETRY_AFTER)


@dataclass(frozen=True)
class Transfer:
    """Sends a request once. Its result is a Reply, or a NoAnswer that is not raised."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeout: float


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Run:
    """Runs the body of a guard, which AsyncSpendgate awaits."""

    body: Callable[[], Any]


Step = Union[Transfer, Pause, Run]
Steps = Generator[Step, Any, T]


def clock() -> float:
    """Seconds, also those for which the machine sleeps, if it can tell."""
    awake = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", None))  # the latter on macOS
    return time.monotonic() if awake is None else time.clock_gettime(awake)


class Settings:
    """The settings of both clients."""

    base: str
    attempts: int
    timeout: float
    max_wait: float
    deadline: float | None
    identify: Callable[[bool], dict[str, str]]
    process: Callable[[], Any]  # returns the state of the present process
    _clock = staticmethod(clock)


def path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def get(where: str, parameters: Mapping[str, object] | None = None, *, admin: bool = False, wait: int = 0) -> Request:
    """A GET request for a path, with the parameters that are not empty."""
    given = {name.rstrip("_"): str(value) for name, value in (parameters or {}).items() if value is not None and value != ""}
    return Request("GET", where + ("?" + urlencode(given) if given else ""), admin=admin, wait=wait)


def send(settings: Settings, request: Request) -> Steps[Reply]:
    """Sends a request. The error's maybe_done says whether any attempt may have been executed."""
    body = None if request.content is None else encode(request.content)
    headers = {**settings.identify(request.admin), **request.headers}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if request.wait:
        headers["Prefer"] = f"wait={request.wait}"
    limits = [None if settings.deadline is None else settings._clock() + settings.deadline, request.until]
    ends = min((limit for limit in limits if limit is not None), default=None)
    unknown = False
    for attempt in count(1):
        left = settings.timeout + request.wait
        if ends is not None:
            left = max(0.001, min(left, ends - settings._clock()))
        answer: Reply | NoAnswer = yield Transfer(request.method, settings.base + request.path, headers, body, left)
        if isinstance(answer, Reply) and answer.status in (request.status, request.again):
            try:
                if request.accept is not None:
                    request.accept(answer)
                return answer
            except NoAnswer as problem:
                answer = problem
        error: NoAnswer | APIError = answer if isinstance(answer, NoAnswer) else refusal(answer)
        unknown = unknown or error.maybe_done
        # A request answered 429 was not processed. One that may have been carried out is not repeated unless that is safe.
        again = isinstance(error, NoAnswer) or error.temporary or (request.accept is not None and not error.definite)
        after = error.retry_after if isinstance(error, APIError) else 0
        wait = after + random.uniform(0, min(FIRST_BACKOFF * 2 ** min(attempt - 1, 10), MOST_BACKOFF))
        error.maybe_done = unknown
        if (
            not again
            or not (request.repeatable or not unknown)
            or after > settings.max_wait
            or (request.until is None and attempt >= settings.attempts)
            or (ends is not None and settings._clock() + wait > ends)
        ):
            raise error
        yield Pause(wait)
    raise AssertionError("unreachable")


def refusal(reply: Reply) -> APIError:
    """Returns the error of an unsuccessful answer."""
    members: dict[str, Any] = {}
    latest: Outcome | None = None
    try:
        envelope = decode(reply.body)
        if isinstance(envelope, dict) and isinstance(envelope.get("error"), dict):
            members = envelope["error"]
            latest = read(Outcome, members["latest"]) if members.get("latest") else None
    except SpendgateError:
        pass  # the answer is not the service's
    code, message, request_id = (str(members.get(name) or "") for name in ("code", "message", "request_id"))
    after = members.get("next_after")
    kind = {"payment_differs": Differs, "frozen": Frozen}.get(code, APIError)
    error = kind(reply.status, code, message, request_id, reply.retry_after, after if isinstance(after, int) else 0, latest)
    if isinstance(error, Differs):
        error.check_id, error.differs = str(members.get("check_id") or ""), [str(name) for name in members.get("differs") or []]
    return error
