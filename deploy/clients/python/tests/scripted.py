"""A server that plays the exchanges of a conformance case; ../../README.md describes them."""

from __future__ import annotations

import json
import pathlib
import socket
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

FILE: dict[str, Any] = json.loads((pathlib.Path(__file__).parents[2] / "cases.json").read_text(encoding="utf-8"))


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
        self.nonces: list[str] = []  # of the requests
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
        nonce = next((value for name, value in headers if name.lower() == "request-nonce"), "")
        if "expect" in exchange:
            self._expect(exchange["expect"], method, uri, headers, body)
        elif (method, uri, body) != self.requests[-1] or nonce != self.nonces[-1]:
            self.faults.append(f"sent {method} {uri} {body!r}, before {self.requests[-1]}")
        self.requests.append((method, uri, body))
        self.nonces.append(nonce)
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
    given = exchange.get("headers", [])
    headers = [h for h in headers if h[0] not in {name for name, _ in given}] + given
    head = f"HTTP/1.1 {exchange.get('status', 200)} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
    return head.encode() + content[: exchange.get("cut", len(content))]
