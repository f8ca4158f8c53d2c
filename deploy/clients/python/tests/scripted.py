"""A server that plays the exchanges of a conformance case; docs/clients/conformance.md describes them."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
import socket
import threading
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

FILE: dict[str, Any] = json.loads((pathlib.Path(__file__).parents[2] / "cases.json").read_text(encoding="utf-8"))
GUARD: dict[str, Any] = json.loads((pathlib.Path(__file__).parents[2] / "guard-cases.json").read_text(encoding="utf-8"))



def _text(value: Any, name: str = "") -> str:
    """JSON in which amounts, which are text in the file, are numbers with the same digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(n)}:{_text(m, n)}" for n, m in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(element) for element in value) + "]"
    return value if name == "amount" and isinstance(value, str) else json.dumps(value)


def differences(want: Any, got: Any, where: str = "") -> list[str]:
    """The wanted members that are missing or differ; further members are ignored."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{where} is {got!r}, not an object"]
        found = []
        for name, member in want.items():
            if name == "amount" and isinstance(member, str):
                if got.get(name) is None or Decimal(got[name]) != Decimal(member):
                    found.append(f"{where}.amount is {got.get(name)!r}, not {member}")
            else:
                found += differences(member, got.get(name), f"{where}.{name}")
        return found
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return [f"{where} is {got!r}, not {want!r}"]
        return [d for i, (w, g) in enumerate(zip(want, got)) for d in differences(w, g, f"{where}[{i}]")]
    if want == "*":
        return [] if isinstance(got, str) and got.strip() else [f"{where} is {got!r}"]
    return [] if want == got else [f"{where} is {got!r}, not {want!r}"]


class Server:
    """Plays exchanges in order, each on a connection of its own."""

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self.exchanges = [x for x in exchanges for _ in range(x.get("times", 1))]
        self.faults: list[str] = []
        self.requests: list[tuple[str, str, bytes]] = []
        self.then: Callable[[], object] = lambda: None  # after each request
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._done = threading.Event()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> list[str]:
        """Ends the server and returns how the requests differed from the case."""
        self._done.set()
        self._listener.close()
        if len(self.requests) < len(self.exchanges):
            self.faults.append(f"{len(self.requests)} requests of {len(self.exchanges)}")
        return self.faults

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._play, args=[connection], daemon=True).start()

    def _play(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                method, uri, headers, body = _request(connection)
            except (ConnectionError, ValueError, OSError):
                return
            exchange = self.exchange(method, uri, headers, body)
            self.then()
            if exchange.get("fail") == "stall":
                self._done.wait(10)
            elif "fail" not in exchange:
                connection.sendall(_answer(exchange))

    def exchange(self, method: str, uri: str, headers: list[tuple[str, str]], body: bytes) -> dict[str, Any]:
        """Compares a request with the expected one, and returns its exchange."""
        if len(self.requests) == len(self.exchanges):
            self.faults.append(f"one request more: {method} {uri} {body!r}")
            return {"fail": "hang_up"}
        exchange = self.exchanges[len(self.requests)]
        if "expect" in exchange:
            self._expect(exchange["expect"], method, uri, headers, body)
        elif (method, uri, body) != self.requests[-1]:
            self.faults.append(f"sent {method} {uri} {body!r}, before {self.requests[-1]}")
        self.requests.append((method, uri, body))
        return exchange

    def _expect(self, want: dict[str, Any], method: str, uri: str, headers: list[tuple[str, str]], body: bytes) -> None:
        path, _, query = uri.partition("?")
        self.faults += differences({"method": want["method"], "path": want["path"]}, {"method": method, "path": path}, "sent")
        if "query" in want and dict(parse_qsl(query)) != want["query"]:
            self.faults.append(f"the query is {query}")
        for name, value in want.get("headers", {}).items():
            values = [v for n, v in headers if n.lower() == name.lower()]
            if (value is None and values) or (value == "*" and not values) or (value not in (None, "*") and values != [value]):
                self.faults.append(f"the header {name} is {values}")
        self.faults += [f"no {text} in {body!r}" for text in want.get("contains", []) if text.encode() not in body]
        if "body" in want:
            got = json.loads(body, parse_float=Decimal)
            self.faults += differences(want["body"], got, "body")
            self.faults += [f"the body has {name}" for name in got if name not in want["body"]]


class GuardServer(Server):
    """Plays the exchanges of a call of guard-cases.json."""

    def __init__(self, call: dict[str, Any]) -> None:
        self.asked = {**GUARD["action"], "payment_key": GUARD["payment_key"], **call.get("with", {})}
        self.nonces: set[str] = set()
        self.takes: Callable[[float], object] = lambda seconds: None
        self.endless = call["exchanges"][-1] if call["exchanges"] and call["exchanges"][-1].get("times") == "any" else None
        super().__init__([{**x, "times": 1} if x is self.endless else x for x in call["exchanges"]])

    def exchange(self, method: str, uri: str, headers: list[tuple[str, str]], body: bytes) -> dict[str, Any]:
        if self.endless and len(self.requests) == len(self.exchanges):
            self.exchanges.append(self.endless)
        if len(self.requests) < len(self.exchanges):
            given = self.exchanges[len(self.requests)]
            sent = json.loads(body, parse_float=Decimal)
            self.takes(given.get("takes", 0))
            self.exchanges[len(self.requests)] = {**given, "expect": self._expected(given, sent), **self._answered(given, sent)}
        return super().exchange(method, uri, headers, body)

    def _expected(self, given: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
        wait = f"wait={given['wait']}" if "wait" in given else None
        want = {"method": "POST", "path": "/v1/checks", "headers": {"Prefer": wait, "X-API-Key": GUARD["api_key"]}}
        if given["request"] != "ask":
            note = {"note": "*"} if "note" in sent else {}
            about = "outcome" if given["request"] == "report" else "in-doubt"
            return {**want, "path": f"/v1/checks/chk_1/{about}", "body": {**given["send"], **note}}
        nonce = str(sent.get("redeem"))
        self.nonces.add(nonce)
        same = canonical(str(sent.get("payment_key"))) == canonical(self.asked["payment_key"])
        key = sent.get("payment_key") if same else self.asked["payment_key"]
        fits = nonce if 16 <= len(nonce) <= 64 else "a nonce of 16 to 64 characters"
        return {**want, "body": {**self.asked, "payment_key": key, "redeem": fits, **given.get("has", {})}}

    def _answered(self, given: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
        if "fail" in given:
            return {}
        named = GUARD["answers"].get(given.get("answer"), {"status": 200})
        text = given.get("text")
        if text is None:
            body = merged(copy.deepcopy(named["body"]), given.get("change", {}))
            for path in given.get("drop", []):
                *parents, last = path.split(".")
                del functools.reduce(lambda of, name: of[name], parents, body)[last]
            text = _text(body)
        text = text.replace("$nonce", sent.get("redeem", ""))
        cut = {"cut": given["cut"] % len(text)} if "cut" in given else {}
        return {"status": given.get("status", named["status"]), "text": text, **cut}


def merged(value: Any, change: Any) -> Any:
    """A value in which the members of objects are replaced, one by one."""
    if not isinstance(value, dict) or not isinstance(change, dict):
        return change
    return {name: merged(value.get(name), change[name]) if name in change else value[name] for name in {**value, **change}}


def canonical(key: str) -> str:
    return unicodedata.normalize("NFC", key).strip()


def _request(connection: socket.socket) -> tuple[str, str, list[tuple[str, str]], bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, uri, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return method, uri, headers, body


def _answer(exchange: dict[str, Any]) -> bytes:
    body = exchange.get("text")
    if body is None:
        named = exchange["body"]
        value = FILE["bodies"][named] if isinstance(named, str) else named
        body = _text({**value, **exchange["change"]} if "change" in exchange else value)
    content = body.encode()
    headers = [["Content-Type", "application/json"], ["Connection", "close"], ["Content-Length", str(len(content))]]
    headers += [] if exchange.get("bare") else [["X-Request-Id", "req_1"]]
    given = exchange.get("headers", [])
    headers = [h for h in headers if h[0] not in {name for name, _ in given}] + given
    head = f"HTTP/1.1 {exchange.get('status', 200)} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
    return head.encode() + content[: exchange.get("cut", len(content))]
