"""A service of checks that are redeemed, for tests of the guard: `python fake.py` prints its address.

The service itself is tested elsewhere; this one allows everything, keeps S18 and S57, and lets each check be redeemed once.
"""

from __future__ import annotations

import json
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CHECKS: dict[str, dict[str, Any]] = {}  # by id
LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet

    def answer(self, status: int, body: Any, **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, {"error": {"code": code, "message": code, "request_id": "req_1"}})

    def show(self, check: dict[str, Any], **headers: str) -> None:
        if check["outcome"]:
            headers["Outcome"] = check["outcome"]["status"]
        self.answer(200, check["body"], **headers)

    def do_GET(self) -> None:
        with LOCK:
            parts = self.path.split("/")
            if self.path == "/v1/keys/self":
                key = {"key_id": "key_1", "name": "n", "rate_limit_rpm": 1, "active": True, "created_at": NOW, "role": "gateway"}
                self.answer(200, key)
            elif parts[2] == "checks" and parts[3] in CHECKS:
                self.show(CHECKS[parts[3]])
            else:
                self.refuse(404, "check_not_found")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            parts = self.path.split("/")
            if len(parts) == 3:
                self.check(body)
            elif parts[4] == "redeem":
                self.redeem(CHECKS[parts[3]], body)
            else:
                self.report(CHECKS[parts[3]], body)

    def check(self, action: dict[str, Any]) -> None:
        known = next((c for c in CHECKS.values() if c["action"]["idempotency_key"] == action["idempotency_key"]), None)
        if known:
            return self.show(known, Idempotent_Replayed="true") if known["action"] == action else self.refuse(422, "validation_error")
        body: dict[str, Any] = {"check_id": f"chk_{len(CHECKS)}", "decision": "allow", "policy_version": 1, "timestamp": NOW}
        CHECKS[body["check_id"]] = {"body": body, "action": action, "redemption": None, "outcome": None}
        self.answer(200, body)

    def redeem(self, check: dict[str, Any], fields: dict[str, Any]) -> None:
        key, replayed = self.headers["Idempotency-Key"], {}
        if check["redemption"] == key:
            replayed = {"Idempotent_Replayed": "true"}
        elif check["redemption"]:
            return self.refuse(409, "check_already_redeemed")
        elif check["outcome"]:
            return self.refuse(409, "check_released")
        elif fields != {n: m for n, m in check["action"].items() if n != "idempotency_key"}:
            return self.refuse(409, "action_mismatch")
        check["redemption"] = key
        self.answer(200, {
            "check_id": check["body"]["check_id"], "action": fields, "action_hash": "h", "redeemed_at": NOW, "redemption_id": "rdm_1",
        }, **replayed)

    def report(self, check: dict[str, Any], report: dict[str, Any]) -> None:
        if check["outcome"] not in (None, report):
            return self.refuse(409, "outcome_already_reported")
        again, check["outcome"] = check["outcome"], report
        record: dict[str, Any] = {
            "amount": None, "reference": None, "note": None, **report, "check_id": check["body"]["check_id"],
            "release": "none", "flags": [], "principal": "key_1", "key_id": "key_1", "at": NOW,
        }
        self.answer(200 if again else 201, record)

    def log_message(self, format: str, *args: Any) -> None:
        pass


NOW = datetime.now(timezone.utc).isoformat()

if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
