#!/usr/bin/env python3
"""A second verifier of spendgate's audit trail, written from docs/audit/format.md.

    verify.py DATABASE_URL [--checkpoint FILE] [--public-key BASE64]... [--archive DIR] [--schema DIR]

Prints what differs from the original record, a line each, and exits 1 if anything does. It keeps all hashes in
memory: its purpose is to prove the document right. Needs psql and nothing but Python's standard library.
"""
import argparse
import base64
import bisect
import datetime
import gzip
import hashlib
import itertools
import json
import os
import re
import struct
import subprocess
import sys
import unicodedata
import zlib
from decimal import Decimal, getcontext

ZERO = bytes(32)
getcontext().prec = 60  # amounts have 27 digits, and are added up exactly
CHECK = (
    "check_id,node,epoch,claimed_ms,until_ms,policy_version,latency_ms,format,requested_type,action_type,"
    "decision,confidence,amount::text,fingerprint,request_sha,currency,agent_id,policy_id,counterparty,"
    "payment_method,merchant_or_vendor,reason_text,idempotency_key,metadata,reason_code,rule_id,"
    "rule_description,message,next_step,key_id,request_id,principal,owner,charges,approval_id,approval,namespace,stops,payment"
)
WIDTHS = {1: 38, 2: 39}  # of CHECK, the columns of a row by its format
OUTCOME = (
    "outcome_id,check_id,node,epoch,step,number,status,release,excess,amount::text,reference,note,key_id,principal,request_id,may_release,replay,"
    "stops,payment"
)
BATCH = "chain_id,seq,version,first_id,last_id,head,entries"
VIOLATION = (
    "id,policy_version,latency_ms,action_type,decision,confidence,amount::text,currency,agent_id,policy_id,"
    "counterparty,rule_id,rule_description,key_id,principal,owner"
)
POLICY = "policy_id,version,name,description,rules,metadata,created_at,updated_at,generation,budgets,redeem,changes"
DRAFT = "policy_id,generation,base_version,name,description,rules,metadata,made_at,redeem,changes"
KEY = "id,hash,name,rpm,active,created_at,generation,grants,stopped,granter_since"
WEBHOOK = "id,url,event_types,active,secret_sha256,created_at,generation"
COUNTER = "counter_id,start_ms,bucket_ms,coalesce(end_ms,0),count,since,used::text,policy_id,rule_id,subject,agent_id"
EXHAUSTION = (
    "counter_id,start_ms,id,at,max_used::text,max_count::text,bucket_ms,policy_id,rule_id,since,subject,"
    "agent_id,used::text,count,percent,nth"
)
APPROVAL = (
    "coalesce(a.id,u.approval_id),a.created_at,a.expires_at,a.use_within_ms,a.required,a.action_hash,a.policy_id,a.agent_id,"
    "a.principal,a.owner,a.payment,u.check_id,d.at"
)
EXHAUSTED = 100
CHANGE_EVENTS = {  # the changes that are events in any case
    b"approval.denied", b"approval.expired", b"approval.reopened", b"approval.withdrawn", b"policy.created", b"policy.forced", b"policy.draft_approved",
    b"policy.draft_rejected", b"key.created", b"key.changed", b"key.expiring", b"freeze.created", b"freeze.release_approved", b"freeze.released", b"freeze.forced",
    b"freeze.ended", b"grant.created", b"grant.approved", b"grant.revoked",
}
CHANGE = "seq,kind,subject,version,actor,key_id,principal,credential,request_id,address,at,details,hash"


def missing_of(wanted, anybody, people):
    """Returns how many are missing of the groups, each person counting once, and of `anybody` further ones."""
    places = [g for g, n in wanted for _ in range(n)]
    taken = {}  # place to person

    def seat(person, tried):
        for place, group in enumerate(places):
            if group & people[person] and place not in tried:
                tried.add(place)
                if place not in taken or seat(taken[place], tried):
                    taken[place] = person
                    return True
        return False

    seated = sum(seat(person, set()) for person in range(len(people)))
    return len(places) - seated + max(0, anybody - (len(people) - seated))


class Exchanged(ValueError):
    """An archive that can be read, but is not the noted one."""


MALFORMED = ArithmeticError, AttributeError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError, struct.error, zlib.error
MEMBERS = {"owner": str, "principal": str, "groups": list, "completes": bool, "restored": bool, "draft": int, "stopped": bool, "granter": bool,
           "keys": list, "active": bool, "role": str, "scopes": list, "policy_ids": list, "agent_ids": list, "expires_at": str}


def object_of(text):
    """Returns the object that a JSON text encodes; None for any other text. Numbers that are too long for any use are None."""
    try:
        said = json.loads(text.decode(), parse_int=lambda digits: int(digits) if len(digits) < 21 else None, parse_constant=int)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def details(text):
    """Returns a change's details without members of a wrong type: the change's hash reveals such members."""
    said = object_of(text) or {}
    fit = {name: value for name, value in said.items() if type(value) is MEMBERS.get(name, type(value))}
    if not all(isinstance(group, str) for group in fit.get("groups", [])):
        del fit["groups"]
    return fit


def sha(domain, *parts):
    return hashlib.sha256(domain.encode() + b"\n" + b"".join(parts)).digest()


class Database:
    """A session of psql that sees the trail as it was when the session began."""

    def __init__(self, url):
        self.psql = subprocess.Popen(
            ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def send(self, statement):
        self.psql.stdin.write(statement.encode() + b";\n")
        self.psql.stdin.flush()

    def read(self, n):
        b = self.psql.stdout.read(n)
        if len(b) < n:
            sys.exit("psql ended: see above")
        return b

    def copy(self, query):
        """Returns the rows of a query, each as its encoding and its fields."""
        self.send(f"COPY ({query}) TO STDOUT (FORMAT binary)")
        head = self.read(19)
        if head[:11] != b"PGCOPY\n\xff\r\n\0":
            sys.exit("not what COPY sends")
        self.read(integer(head[15:]))
        rows = []
        while (count := integer(row := self.read(2))) >= 0:
            fields = []
            for _ in range(count):
                prefix = self.read(4)
                length = integer(prefix)
                field = None if length < 0 else self.read(length)
                row += prefix + (field or b"")
                fields.append(field)
            rows.append((row, fields))
        return rows


def integer(b):
    return int.from_bytes(b, "big", signed=True)


SIZES = {"claimed_ms": 8, "until_ms": 8, "policy_version": 4, "latency_ms": 4, "format": 2, "stops": 8, "seq": 8, "version": 2}
HEXADECIMAL = (
    "check_id", "id", "node", "epoch", "fingerprint", "request_sha", "approval_id", "chain_id", "first_id", "last_id", "head", "entries")


def encode(line):
    """Returns an archive's line as the row's encoding and its fields."""
    fields = []
    for name, value in line.items():
        if value is None:
            fields.append(None)
        elif name in SIZES:
            fields.append(value.to_bytes(SIZES[name], "big", signed=True))
        else:
            fields.append(bytes.fromhex(value) if name in HEXADECIMAL else value.encode())
    return encode_row(fields), fields


def encode_row(fields):
    row = struct.pack(">h", len(fields))
    for field in fields:
        row += b"\xff\xff\xff\xff" if field is None else struct.pack(">i", len(field)) + field
    return row


KINDS = "rb", "re", "cb", "ce", "db", "de", "sb", "se"


def month_of(identifier):
    try:
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=int.from_bytes(identifier[:6], "big"))
    except OverflowError:
        return ""
    return at.strftime("%Y-%m")


def hash_check(row, fields):
    """Returns the hash of a check's row by the row's format; columns beyond that format must be null."""
    number = integer(fields[7] or b"")
    width = WIDTHS.get(number, len(fields))
    if any(field is not None for field in fields[width:]):
        return None
    if behind := len(fields[width:]):
        row = struct.pack(">h", width) + row[2:-4 * behind]
    return sha(f"spendgate check {number}", row)


EPOCH = 946684800000000  # of timestamptz, in Unix microseconds
MOVED = 24 * 3600 * 1000  # how far newer time zone rules may move the end of a calendar window
KEPT = 35 * 24 * 3600 * 1000  # how long payments that have ended are kept at least
APART = 16 * 3600 * 1000  # more than the clocks of any zone were ever ahead of UTC


def moment(text):
    """Converts an RFC 3339 time in UTC to nanoseconds since 2000."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    since = datetime.datetime.fromisoformat(whole) - datetime.datetime(2000, 1, 1)
    return (since.days * 86400 + since.seconds) * 1000000000 + int(fraction.ljust(9, "0"))


def payment_hash(namespace, key):
    return sha("spendgate payment 1", struct.pack(">I", len(namespace)), namespace, key.encode())


def payment_of(fields):
    """Returns the hash of the payment that a check is of; empty without one."""
    says = object_of((fields[38:] or [b""])[0] or b"")
    return payment_hash(fields[36] or b"", says["key"]) if says else b""


def stamp(ms):
    """Returns a time as it is in a payment's state."""
    whole = datetime.datetime.fromtimestamp(ms // 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    return whole + (f".{ms % 1000:03}".rstrip("0") if ms % 1000 else "") + "Z"


def may_move(end, bucket):
    """Returns how far a row's end may differ from those of recorded checks: not at all for a bucket or a lifetime."""
    return MOVED if end and not bucket else 0


def earliest(start, bucket):
    """Returns when the window or bucket of a counter began at the earliest, in whatever zone."""
    return start - APART if start and not bucket else start


def shown(finding):
    """Returns a finding as a terminal may show it, with escapes for marks and for what shows nothing: who alters rows chooses what they say."""
    blank = "\u115f\u1160\u2800\u3164\uffa0\ufffc\U00013441\U00013442\U0001d159"
    return "".join(c if c.isprintable() and unicodedata.category(c)[0] != "M" and c not in blank else ascii(c)[1:-1] for c in finding)


def nfc(name):
    """Returns an identifier in the form in which it is compared with another."""
    return unicodedata.normalize("NFC", (name or b"").decode())


def fold(name):
    """Returns a text that is equal for names of principals or owners that count as one (S62)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", (name or b"").decode()).casefold())


def action_of(fields):
    """Returns what people see of a check's action, normalized."""
    try:
        metadata = json.loads(fields[23], parse_float=Decimal, parse_int=Decimal) if fields[23] else None
    except (ValueError, RecursionError):
        metadata = fields[23]
    return [fold(fields[31] or fields[29]), Decimal(fields[12].decode()), metadata, *(fields[i] or b"" for i in (9, 15, 16, 17, 18, 19, 20))]


class Verifier:
    def __init__(self, url):
        self.database = Database(url)
        self.findings = set()
        self.heads = {}  # (chain_id, seq) to head
        self.folds = {}  # chain_id to its folds by number: from, to, head, day, whether the batches are available
        self.texts = {}  # outcome to its reference and note, for outcomes in archived batches
        self.links = {}  # seq to head, of the changes
        self.entries = {}  # (chain_id, seq) to what the batch lists
        self.made_at = []  # what was made with a change: its name, and the change's number and time
        self.away = set()  # days whose archive is absent
        self.days = []  # those days, and days with an altered archive
        self.last = {}  # check to its last outcome
        self.asked = {}  # check that asks for an approval to what it asks for, None if the check is altered
        self.actions = {}  # check that asks for an approval to its action
        self.uses = {}  # approval to the checks that were allowed with it, and their actions
        self.granters = {}  # key_id to the changes after which the key may grant, and before which it might not
        self.key_stops = {}  # key_id to the changes that stopped what the key was allowed
        self.freezes = {}  # freeze_id to what is frozen, since when and until when
        self.restores = []  # the freezes after which nothing from before is redeemed
        self.grants = {}  # counter_id to its grants: window, what they add, until when, and who made which change of them
        self.stops = []  # number and time of each change of a grant or a key
        self.rulings = {}  # approval_id to its changes
        self.met = {}  # (counter_id, principal) to what is known of the budget, and the latest end
        self.reports = {}  # check to the number of its last report, and the largest excess that counts
        self.least = {}  # (counter_id, start_ms) without bucket to what gave the limits (judged), and the least that such checks took
        self.held = {}  # counter_id, start_ms and what gave the limits to the same for checks that had to keep them
        self.zones_changed = []  # when, in Unix milliseconds
        self.charges = {}  # counter_id to the charges of checks: start_ms, time, least and most amount and number
        self.budgets = {}  # (policy_id, rule_id, since) to the terms of its versions: version, from, until, limit, max_count
        self.per_agent = set()  # those of these budgets that count for each agent
        self.odd = set()  # policies with an altered version
        self.keyed = {}  # the hash of an idempotency key to the checks that have it
        self.lost = set()  # checks with a finding
        self.askers = {}  # check that asks for an approval to its API key, unless the check is altered
        self.behind = {}  # key_id to the party behind it: number of the change, names, groups, all that the change says, when
        self.authors = {}  # (policy_id, version) to its author: key_id, names
        self.asks = {}  # check that asks for an approval to what it asks, and the version
        self.taken = {}  # (counter_id, start_ms) to what recorded checks took
        self.steps = {}  # check to the fields of its outcomes
        self.stray = set()  # checks with an outcome that has a finding
        self.judged = {}  # check to its fields, for unaltered checks with outcomes
        self.notify = {}  # (policy_id, rule_id, since, version) to the percentages of its notify_at
        self.terms = {}  # (policy_id, version) to what it says of redemptions
        self.paid = {}  # the hash of a payment to what is recorded of it: version, row, what the row says, and its fields
        self.removals = {}  # the hash of a payment to when it was removed, when it had ended, and the version that it had
        self.floor, self.removed, self.kept_from = 0, 0, -1 << 62  # removed events: last number, how many, and from before when

    def find(self, kind, subject):
        self.findings.add(f"{kind} {subject}")

    def soundly(self, name, check, *of):
        """Runs a check, and reports it as unfinished if the data are in no known form."""
        try:
            return check(*of)
        except MALFORMED as fault:
            self.find("unchecked", f"the rest of {name}: {fault!r}")
            return None

    def folded(self, folder, keys):
        """Checks the folds of the chains, and returns the batches that archives have of them."""
        days, rows = {}, []
        query = """SELECT chain_id, from_seq, to_seq, entries, day - date '1970-01-01', previous, head, manifest_sha256, signature
            FROM folded_chains ORDER BY chain_id, to_seq"""
        for _, (chain, *numbers, previous, head, manifest, signature) in self.database.copy(query):
            numbers = [integer(n) for n in numbers]
            first, last, entries, day = numbers
            fold = {"chain": chain, "from": first, "to": last, "entries": entries, "head": head, "manifest": manifest, "day": day, "here": False}
            before = self.folds.setdefault(chain, [])
            end = before[-1] if before else {"to": 0, "head": ZERO}
            fold["name"] = f"fold of chain {chain.hex()} up to batch {last}"
            signed = b"spendgate fold 1\n" + chain + struct.pack(">qq", first, last) + previous + head + struct.pack(">qq", entries, day) + manifest
            if keys and not any(verify(key, signature, signed) for key in keys) or (first, previous) != (end["to"] + 1, end["head"]) or last < first:
                self.find("altered", fold["name"])
            before.append(fold)
            days.setdefault(day, []).append(fold)
        for day, folds in sorted(days.items()):
            name = str(datetime.date(1970, 1, 1) + datetime.timedelta(day))
            path = os.path.join(folder or "", f"batches-{name}.manifest.json")
            packed = path.replace(".manifest.json", ".jsonl.gz")
            if not folder or not os.path.exists(path) or not os.path.exists(packed):
                self.find("unchecked", f"batches of {name}")
                continue
            try:
                rows += self.refolded(path, packed, name, folds)
            except MALFORMED:
                self.find("altered", f"archive of batches of {name}")
        return rows

    def refolded(self, path, packed, name, folds):
        lines = [encode(line)[1] for line in self.unpack(path, packed, "batches", name, folds[0]["manifest"])]
        had = {(line[0], integer(line[1])): line for line in lines}
        all_of = [[had.pop((fold["chain"], n)) for n in range(fold["from"], fold["to"] + 1)] for fold in folds]
        if had or any(fold["manifest"] != folds[0]["manifest"] for fold in folds):
            raise ValueError("not what was folded")
        for fold, some in zip(folds, all_of):
            fold["here"] = True
            if (sum(len(line[6]) // 48 for line in some), some[-1][5]) != (fold["entries"], fold["head"]):
                self.find("altered", fold["name"])
        for line in lines:
            for outcome, *texts in json.loads(line[7] or b"[]"):
                self.texts[bytes.fromhex(outcome)] = texts
        return [line[:7] for line in lines]

    def beyond(self, chain, seq):
        """Returns the fold without readable archive that covers the batch, in a list: none or one."""
        return [f for f in self.folds.get(chain, ()) if not f["here"] and f["from"] <= seq <= f["to"]]

    def blind(self, chain, identifier):
        """Reports whether a batch without readable archive may list the identifier."""
        day = int.from_bytes(identifier[:6], "big") // 86400000
        return any(not f["here"] and day <= f["day"] for f in self.folds.get(chain, ()))

    def batches(self, folder, keys):
        """Walks all chains; returns the row hash of each listed check."""
        rows = self.folded(folder, keys)
        for _, fields in self.database.copy(f"SELECT {BATCH} FROM batches"):
            if 0 < integer(fields[1]) <= self.folds.get(fields[0], [{"to": 0}])[-1]["to"]:
                self.find("inserted", f"batch {integer(fields[1])} of chain {fields[0].hex()}")
            else:
                rows.append(fields)
        chains = {chain: [] for chain in self.folds}
        for fields in rows:
            chains.setdefault(fields[0], []).append((integer(fields[1]), *fields[2:]))
        listed = {}
        for chain_id in sorted(chains):
            self.walk(chain_id, sorted(chains[chain_id], key=lambda b: b[0]), listed)
        return listed

    def walk(self, chain_id, batches, listed):
        seq, before = 0, [ZERO]

        def skip(to):
            nonlocal seq, before
            while (folded := self.beyond(chain_id, seq + 1)) and folded[0]["to"] <= to:
                seq, before = folded[0]["to"], [folded[0]["head"]]
                self.heads[chain_id, seq] = folded[0]["head"]

        for number, version, first, last, head, entries in batches:
            name = f"batch {number} of chain {chain_id.hex()}"
            skip(number - 1)
            if number < 1:
                self.find("inserted", name)
            elif number != seq + 1:
                self.find("removed", f"batch {seq + 1} of chain {chain_id.hex()}")
                before = []
            seq = max(number, seq)
            self.heads[chain_id, number] = head
            ids = [entries[i:i + 16] for i in range(0, len(entries), 48)]
            if integer(version) != 1:
                self.find("unchecked", name)
                before = [head]
                continue
            if len(entries) % 48 or not entries or ids != sorted(set(ids)):
                self.find("altered", name)
                before = [head]
                continue
            if (first, last) != (ids[0], ids[-1]):
                self.find("altered", name)
            if number > 0:
                self.entries[chain_id, number] = ids
            for i, check in enumerate(ids):
                if check in listed:
                    self.find("altered", name)
                listed.setdefault(check, entries[48 * i + 16:48 * i + 48])
            if number < 1:
                continue
            computed = [
                sha("spendgate batch 1", chain_id, struct.pack(">qi", seq, len(ids)), previous, entries) for previous in before
            ]
            if head in computed or not before:
                before = [head]
            else:  # the next one tells which of these is right
                self.find("altered", name)
                before = before + [head, computed[-1]]
        skip(1 << 63)
        if chain_id in self.folds and seq <= self.folds[chain_id][-1]["to"]:
            self.find("removed", f"batch {self.folds[chain_id][-1]['to'] + 1} of chain {chain_id.hex()}")

    def archived(self, folder, listed):
        """Returns the rows of archived days. Entries listed for a day without archive are dropped."""
        for _, (day, _, note) in self.database.copy("SELECT day - date '1970-01-01', rows, manifest_sha256 FROM archived_days"):
            name = str(datetime.date(1970, 1, 1) + datetime.timedelta(integer(day)))
            lines, whole = self.archive(folder, f"checks-{name}", "day", name, note)
            if lines is None:
                self.days.append(integer(day))
                self.away.add(integer(day))
                for check in [c for c in listed if int.from_bytes(c[:6], "big") // 86400000 == integer(day)]:
                    del listed[check]
                continue
            if not whole:
                self.days.append(integer(day))
            yield from lines

    def archive(self, folder, files, period, name, note):
        """Returns the lines of an archive, None if it is absent, and whether it is the noted one."""
        path = os.path.join(folder or "", files + ".manifest.json")
        rows = path.replace(".manifest.json", ".jsonl.gz")
        if not folder or not os.path.exists(path) or not os.path.exists(rows):
            self.find("unchecked", f"{period} {name}")
            return None, False
        try:
            whole, lines = True, self.unpack(path, rows, period, name, note)
        except Exchanged as other:
            whole, lines = False, other.args[0]
            self.find("altered", f"archive of {name}")
        except MALFORMED:
            self.find("altered", f"archive of {name}")
            return None, False
        return [encode(line) for line in lines], whole

    def unpack(self, path, rows, period, name, note):
        """Returns the lines of an archive, or raises Exchanged with them if it is not the noted one."""
        with open(path, "rb") as f:
            text = f.read()
        with open(rows, "rb") as f:
            packed = f.read()
        manifest, content = json.loads(text), gzip.decompress(packed)
        lines = [json.loads(line) for line in content.splitlines()]
        if period == "batches":
            keys, period = [(line["chain_id"], line["seq"]) for line in lines], "day"
            ends = min(line["first_id"] for line in lines), max(line["last_id"] for line in lines)
        else:
            keys = ["chk_" + line["check_id"] if period == "day" else "viol_" + line["id"] for line in lines]
            ends = (keys or [""])[0], (keys or [""])[-1]
        said = [manifest[m] for m in ("format", period, "file", "rows", "first_id", "last_id", "file_sha256", "content_sha256")]
        found = [1, name, os.path.basename(rows), len(keys), *ends, hashlib.sha256(packed).hexdigest(), hashlib.sha256(content).hexdigest()]
        if hashlib.sha256(text).digest() != note or said != found or keys != sorted(set(keys)):
            raise Exchanged(lines)
        return lines

    def violations(self, folder):
        """Returns all violations by identifier, including those in archives, and the months without archive."""
        violations, unread = {fields[0]: fields for _, fields in self.database.copy(f"SELECT {VIOLATION} FROM violations")}, set()
        query = """SELECT to_char(month, 'YYYY-MM'), manifest_sha256, refund_blocks, refund_escalations, credit_blocks,
            credit_escalations, discount_blocks, discount_escalations, spend_blocks, spend_escalations FROM archived_violations"""
        for _, (month, note, *noted) in self.database.copy(query):
            name = month.decode()
            lines, whole = self.archive(folder, f"violations-{name}", "month", name, note)
            left = {i: violations.pop(i) for i in [i for i in violations if month_of(i) == name]}
            if lines is None:
                unread.add(name)
                continue
            kept = {fields[0]: fields for _, fields in lines}
            for violation, fields in left.items():
                if kept.get(violation) != fields:
                    self.find("inserted", f"violation viol_{violation.hex()}")
            kinds = [(fields[3] + fields[4]).decode() for fields in kept.values()]
            if whole and [kinds.count(kind) for kind in KINDS] != [integer(count) for count in noted]:
                self.find("altered", f"month {name}")
            violations.update(kept)
        return violations, unread

    def outcomes(self, listed):
        """An identifier of version 8 is one of an outcome."""
        reported = {i: listed.pop(i) for i in [i for i in listed if i[6] >> 4 == 8]}
        for row, fields in self.database.copy(f"SELECT {OUTCOME} FROM outcomes"):
            stored = reported.pop(fields[0], None)
            self.steps.setdefault(fields[1], []).append(fields)
            left = self.texts.get(fields[0])
            if left:
                whole = [text.encode() if f is None and text is not None else f for f, text in zip(fields[10:12], left)]
                row = encode_row([*fields[:10], *whole, *fields[12:]])
            blind = stored is None and self.blind(fields[2], fields[0])
            if stored != sha("spendgate outcome 1", row) and not blind:
                self.stray.add(fields[1])
            number, corrects = integer(fields[5]), fields[7] == b"d" or fields[8] == b"e"
            known = self.reports.get(fields[1], (0, 0))
            excess = Decimal((fields[9] or b"0").decode()) if fields[8] == b"e" else 0
            self.reports[fields[1]] = max(known[0], number), max(known[1], excess)
            if number > self.last.get(fields[1], (0,))[0]:
                self.last[fields[1]] = number, corrects and fields[6], Decimal((fields[9] or b"0").decode())
            if blind:
                continue
            if stored is None:
                self.find("inserted", f"outcome {fields[0].hex()}")
            elif stored != sha("spendgate outcome 1", row):
                self.find("altered", f"outcome {fields[0].hex()}")
        for outcome in reported:
            self.find("removed", f"outcome {outcome.hex()}")

    def checks(self, listed, folder):
        violations, unread = self.violations(folder)
        archived = list(self.archived(folder, listed))
        for row, fields in self.database.copy(f"SELECT {CHECK} FROM kept_checks"):  # of payments
            stored, away = listed.get(fields[0]), int.from_bytes(fields[0][:6], "big") // 86400000 in self.away
            if stored is None and not away and not self.blind(fields[1], fields[0]):
                self.find("inserted", f"kept check chk_{fields[0].hex()}")
            elif stored is not None and hash_check(row, fields) != stored:
                self.find("altered", f"kept check chk_{fields[0].hex()}")
        for row, fields in itertools.chain(self.database.copy(f"SELECT {CHECK} FROM checks"), archived):
            check = fields[0]
            stored = listed.pop(check, None)
            intact = stored is None or hash_check(row, fields) == stored
            try:
                self.take(fields, stored and intact)
            except MALFORMED:
                pass  # its hash names it
            self.approval(fields, intact)
            if stored and intact and check in self.steps:
                self.judged[check] = fields
            if says := object_of((fields[38:] or [None])[0] or b""):
                says = {"namespace": (fields[36] or b"").decode(), **says}
                self.soundly("the payments", self.pay, says, (check, check, "c", says, fields))
            if stored and intact and fields[10] == b"a" and self.freezes:
                self.passes_freezes(fields)
            if stored is None or not intact:
                self.lost.add(check)
            elif fields[22]:
                slot, space = b"", fields[36] or b""
                if fields[34] or space:
                    slot = b"\0" + (fields[34] or bytes(16)) + struct.pack(">H", len(space)) + space
                self.keyed.setdefault(hashlib.sha256(slot + fields[22]).digest(), []).append(check)
            if stored is None and not self.blind(fields[1], check):
                self.find("inserted", f"check chk_{check.hex()}")
            elif not intact:
                self.find("altered", f"check chk_{check.hex()}")
            copied = [fields[i] for i in (0, 5, 6, 9, 10, 11, 12, 15, 16, 17, 18, 25, 26, 29, 31, 32)]
            copied[11:13] = [text or b"" for text in copied[11:13]]
            wanted = None if fields[10] in (b"a", None) else copied
            there = violations.pop(check, None)
            if there != wanted and month_of(check) not in unread:
                kind = "unchecked" if not intact else "removed" if there is None else "inserted" if wanted is None else "altered"
                self.find(kind, f"violation viol_{check.hex()}")
        for check in listed:
            self.lost.add(check)
            self.find("removed", f"check chk_{check.hex()}")
        for check in [v for v in violations if int.from_bytes(v[:6], "big") // 86400000 not in self.away]:
            self.find("unchecked" if check in listed else "inserted", f"violation viol_{check.hex()}")

    def passes_freezes(self, fields):
        """Finds an allow, a redemption and a take-over that a freeze stopped (G17)."""
        def frozen(row, stops, *names):
            at, margin, stops = int.from_bytes(row[:6], "big") * 1000 - EPOCH, 3000000, integer(stops or b"")
            what = {"policy_id": fields[17].decode(), "agent_id": nfc(fields[16]), "counterparty": nfc(fields[18])}
            for kind, value, since, until, seq, ended, end in self.freezes.values():
                judged = (not end or stops < end) if stops >= seq else at >= since + margin and (not end or at < ended)
                if judged and (not until or at < until):
                    named = kind == "principal" and fold(value.encode()) in [fold(n) for n in names if n]
                    if kind == "all" or named or kind in what and what[kind] == (value if kind == "policy_id" else nfc(value.encode())):
                        return True
            return False

        asked = fields[29], fields[31], fields[32]
        if frozen(fields[0], fields[37], *asked):
            self.find("inserted", f"check chk_{fields[0].hex()}")
        for o in self.steps.get(fields[0], ()):
            if o[6] in (b"r", b"t") and frozen(o[0], o[17], *asked, o[12], o[13]):
                self.find("inserted", f"outcome {o[0].hex()}")

    def take(self, fields, proved):
        for charge in json.loads(fields[33] or b"[]", parse_float=Decimal):
            per = json.dumps(charge["per"], ensure_ascii=False, separators=(",", ":"))
            names = fields[17].decode(), charge["rule_id"], charge["since"], per
            encoded = [struct.pack(">I", len(text)) + text for text in (names[0].encode(), names[1].encode())]
            counter_id = sha("spendgate counter 1", *encoded, struct.pack(">I", names[2]), per.encode())[:16]
            who = fields[31] or fields[29]
            if who:
                end = charge["end_ms"] - may_move(charge["end_ms"], charge["bucket_ms"]) or 1 << 63
                known = self.met.get((counter_id, who), (names, 0))
                self.met[counter_id, who] = names, max(known[1], end)
            begin = charge["start_ms"] - charge.get("offset_ms", 0)
            sums = self.taken.setdefault(
                (counter_id, charge["start_ms"]), [names, charge["bucket_ms"], charge["end_ms"], 0, 0, charge["end_ms"], begin])
            sums[2], sums[5], sums[6] = max(sums[2], charge["end_ms"]), min(sums[5], charge["end_ms"]), min(sums[6], begin)
            sums[3] += charge.get("amount", 0)
            sums[4] += 1
            self.weigh(fields, counter_id, charge, proved and not fields[34], self.judged_by(fields, counter_id, charge, names, proved))
            _, status, moved = self.last.get(fields[0], (0, None, 0))
            if status and status != b"x":
                sums[3] -= charge.get("amount", 0)
                sums[4] -= 1
            elif status and "amount" in charge:
                sums[3] += moved - charge["amount"]

    def judged_by(self, fields, counter, charge, names, proved):
        """Returns what gave a charge its limits: last change of the counter's grants, version, last change of the open ones, and what
        these gave. Finds a row that says otherwise."""
        version, said = integer(fields[5]), (charge.get("granted", 0), charge.get("granted_count", 0))
        terms = [of[3:] for of in self.budgets.get(names[:3], ()) if of[0] == version]
        if not terms or names[0] in self.odd:
            return 0, version, 0, *said
        phase, raised, *gave = self.given(counter, charge["start_ms"], charge["bucket_ms"], terms[0], integer(fields[37] or b""), int.from_bytes(fields[0][:6], "big"))
        if proved and list(said) != gave:
            self.find("inserted", f"check chk_{fields[0].hex()}")
        return phase, version, raised, *gave

    def given(self, counter, start, bucket, limits, stops, at):
        """Returns what grants gave a check of that time (in ms) that was judged by a stop: last change of the counter's grants, last
        change of the open ones, amount and number (S91)."""
        phase, raised, gave = 0, 0, [0, 0]
        for g in self.grants.get(counter, ()):
            changes = [c for c in g["changes"] if c[0] <= stops]
            if not changes or g["bucket"] != bucket or not bucket and g["start"] != start:
                continue
            phase = max(phase, changes[-1][0])
            if changes[-1][1] == b"grant.revoked" or at >= g["until"] or not self.may_grant(changes[0], stops, at):
                continue
            people = [self.grants_as(changes[0], stops)]
            for change in changes[1:]:
                names = self.grants_as(change, stops)
                if self.may_grant(change, stops, at) and not any(names & other for other in people):
                    people.append(names)
            if len(people) > g["required"]:
                for kind in 0, 1:
                    if g["adds"][kind] and limits[kind] is not None:
                        gave[kind] += g["adds"][kind]
                        raised = max(raised, changes[-1][0])
        return phase, raised, *gave

    def may_grant(self, change, stops, at):
        """Reports whether what was granted, or approved, counts for a check that was judged by a stop."""
        number, _, key = change[:3]
        last = self.stood(key, stops + 1)
        if not last:
            return key.startswith(b"ses_")
        said = last[0][3]
        try:
            until = datetime.datetime.fromisoformat(said["expires_at"]) if "expires_at" in said else None
        except (TypeError, ValueError):
            return False
        expired = until and datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=at) >= until
        return (bool(said.get("active")) and not expired and (said.get("role") == "approver" or "budgets:grant" in said.get("scopes", ()))
                and "policy_ids" not in said and "agent_ids" not in said and not any(number < since <= stops for since in self.granters.get(key, ())))

    def grants_as(self, change, stops):
        """Returns the names of who granted, or approved, as of then, and behind a key as of a stop."""
        last = self.stood(change[2], stops + 1)
        return {fold(n) for n in (*change[2:], *(last[0][1] if last else ())) if n}

    def grant(self, name, number, fields):
        """Follows a change of a grant."""
        self.stops.append((number, (integer(fields[10]) + EPOCH) // 1000))
        kind, at, minute = fields[1], self.stops[-1][1], 60000
        try:
            said = json.loads(fields[11].decode(), parse_float=Decimal)
            owner = said.get("owner", "").encode()
            terms = {member: value for member, value in said.items() if member not in ("said", "owner", "email", "name")}
            start, bucket, until, adds = terms["start_ms"], terms["bucket_ms"], terms["until_ms"], (terms.get("add_amount", 0), terms.get("add_count", 0))
            named = [struct.pack(">I", len(text)) + text for text in (terms["policy_id"].encode(), terms["rule_id"].encode())]
            counter = sha("spendgate counter 1", *named, struct.pack(">I", terms["since"]), terms["subject"].encode())[:16]
            known = [g for of in self.grants.values() for g in of if g["id"] == fields[2]]
            possible = fields[12] == sha("spendgate grant 1", f"{counter.hex()}\n{start}\n{bucket}".encode()) and fields[2][:4] == b"grt_"
            if kind == b"grant.created":
                most = until if start and not bucket else at + 31 * 86400 * 1000 + minute
                possible = possible and not known and adds[1] >= 0 and (adds[0] > 0) != (adds[1] > 0) and at - minute < until <= most
            else:
                possible = possible and known and known[0]["terms"] == terms and known[0]["changes"][-1][1] != b"grant.revoked"
        except MALFORMED:
            possible = False
        if not possible:
            self.find("inserted", name)
            return
        if not known:
            known = [{"id": fields[2], "terms": terms, "start": start, "bucket": bucket, "until": until, "adds": adds, "required": terms.get("required", 0), "changes": []}]
            self.grants.setdefault(counter, []).append(known[0])
        known[0]["changes"].append((number, kind, fields[5] or b"", fields[6] or b"", owner))

    def weigh(self, fields, counter_id, charge, held, judged):
        """Notes the bounds of what a check had taken at any later time. After two reports it may have given back in between."""
        amount, (number, excess) = charge.get("amount", 0), self.reports.get(fields[0], (0, 0))
        _, status, moved = self.last.get(fields[0], (0, None, 0))
        freed = number > 1 or status and status != b"x"
        low = 0 if freed else min(amount, moved) if status else amount
        high = max(amount, excess) if "amount" in charge else 0
        self.charges.setdefault(counter_id, []).append(
            (charge["start_ms"], int.from_bytes(fields[0][:6], "big"), charge["end_ms"], low, high, 0 if freed else 1,
             charge["start_ms"] - charge.get("offset_ms", 0)))
        if held:
            of = self.held.setdefault(counter_id, {}).setdefault(charge["start_ms"], {}).setdefault(judged, [0, 0])
            of[0] += low
            of[1] += 0 if freed else 1
        if not charge["bucket_ms"]:
            by = self.least.setdefault((counter_id, charge["start_ms"]), {}).setdefault(judged, [0, 0])
            by[0] += low
            by[1] += 0 if freed else 1

    def agent(self, names):
        """Returns the agent that is noted with a counter; empty unless the budget is per agent."""
        if (names[0], names[1], names[2]) not in self.per_agent:
            return b""
        return json.loads(names[3])[0].encode()

    def notified(self, key, names):
        """Returns the percentages that are noted of a counter under each version by which checks took from it."""
        sets = [self.notify.get((*names[:3], version)) for _, version, *_ in self.least.get(key, {})]
        return set.intersection(*sets) if sets and None not in sets else set()

    @staticmethod
    def reached(percent, used, count, most):
        """Reports whether a usage reaches a percentage of a limit; below 100 of a limit of 0 nothing does."""
        of = [(n, limit) for n, limit in zip((used, count), most) if limit is not None and (limit or percent == EXHAUSTED)]
        return any(n * EXHAUSTED >= limit * percent for n, limit in of)

    def unnoted(self, key, names, percent, noted):
        """Reports whether the checks up to some change of grants and some version took a percentage of a counter, by the largest limit
        of these since that change, and nothing notes it with a change of those grants."""
        terms = {of[0]: of[3:] for of in reversed(self.budgets.get(names[:3], ()))}
        low, count, taken = 0, 0, sorted(self.least.get(key, {}).items())
        for place, ((phase, version, *_), (amount, n)) in enumerate(taken):
            low, count = low + amount, count + n
            newest = max([version, *(by[1] for by, _ in taken[place + 1:place + 2] if by[0] == phase)])  # a check of the next version may be in the same commit
            those = [by for by, _ in taken if by[0] == phase and by[1] <= newest]
            limits = [self.raise_by(terms.get(by[1]), by[3:]) for by in those]
            if None in limits or names[0] in self.odd:
                return False
            most = [None if any(v is None for v in of) else max(of) for of in zip(*limits)]
            told = any(p == percent and (percent != EXHAUSTED or nth in [by[2] for by in those]) for p, nth in noted)
            if not told and self.reached(percent, low, count, most):
                return True
        return False

    @staticmethod
    def raise_by(limits, gave):
        """Returns the limits with what grants gave."""
        return limits and [limit if limit is None else limit + by for limit, by in zip(limits, gave)]

    def excesses(self, name):
        """Windows from which checks took more than any version that judged them allows with its grants: of those whose limits are not above one of them."""
        for counter, starts in self.held.items():
            window = []
            for start in sorted(starts):
                names, bucket = self.taken[counter, start][:2]
                window = [(s, b) for s, b in window if b == bucket > 0 and s >= start - 60 * bucket] + [(start, bucket)]
                if names[0] not in self.odd and self.exceeds(names, [starts[s] for s, _ in window]):
                    self.find("inserted", "excess of " + name(names, start))
                    window = []

    def exceeds(self, names, parts):
        terms = {of[0]: of[3:] for of in reversed(self.budgets.get(names[:3], ()))}
        for kind in 0, 1:
            took = [(self.raise_by(terms[judged[1]], judged[3:])[kind], by[kind]) for part in parts for judged, by in part.items() if judged[1] in terms]
            took = [(most, n) for most, n in took if most is not None]
            if any(sum(n for limit, n in took if limit <= most) > most for most in {most for most, _ in took}):
                return True
        return False

    def exhaustion(self, counter, start, at, bucket, names, noted, agent, used, count, percent, nth):
        """Reports whether an exhaustion follows from the record."""
        minute, at_ms = 60000, at / 1000
        encoded = [struct.pack(">I", len(text.encode())) + text.encode() for text in names[:2]]
        made = sha("spendgate counter 1", *encoded, struct.pack(">I", names[2]), names[3].encode())[:16]
        if made != counter or at // 1000 < earliest(start, bucket) - minute or self.taken.get((counter, start), (None, bucket))[1] != bucket:
            return False
        terms = self.budgets.get(names[:3])
        if terms and names[0] not in self.odd:
            fits = (begin <= at_ms + minute and (until is None or until >= at_ms - minute)
                    and (percent == EXHAUSTED or percent in self.notify.get((*names[:3], version), ()))
                    and any(noted == self.raise_by(of, gave) and (percent != EXHAUSTED or nth == raised)
                            for _, raised, *gave in self.given_around(counter, start, bucket, of, int(at_ms)))
                    for version, begin, until, *of in terms)
            if agent != self.agent(names) or not any(fits) or nth and percent != EXHAUSTED and not bucket:
                return False
            if percent != EXHAUSTED and not self.reached(percent, used, count, noted):
                return False
        charges = self.charges.get(counter, ())  # sorted
        last = start + bucket + 3 * minute if bucket else start  # buckets that begin later do not count
        window = charges[bisect.bisect_left(charges, (start - 60 * bucket,)):bisect.bisect_left(charges, (last + 1,))]
        end = start + bucket if bucket else max((c[2] for c in window), default=0)
        if end and at // 1000 > end + may_move(end, bucket) + minute:
            return False
        begin = earliest(start, bucket) if bucket or not window else self.reach(min(c[6] for c in window), end, bucket)[0]
        first, last = (begin - 60 * bucket, at_ms + minute) if start or bucket else (0, 0)
        if any(not last or day * 86400000 < last and first < (day + 1) * 86400000 for day in self.days):
            return True
        before, by_then = [c for c in window if c[1] < at_ms - minute], [c for c in window if c[1] <= at_ms + minute]
        return sum(c[3] for c in before) <= used <= sum(c[4] for c in by_then) and sum(c[5] for c in before) <= count <= len(by_then)

    def given_around(self, counter, start, bucket, limits, at):
        """Returns what grants may have given around a time, with a minute for commits and clocks: by each stop, and at each end of a grant."""
        minute, grants = 60000, self.grants.get(counter, ())
        stops = [s for s, made in self.stops if grants and at - minute <= made <= at + minute]
        stops.append(max((s for s, made in self.stops if grants and made < at - minute), default=0))
        ends = [end for g in grants for end in (g["until"] - 1, g["until"]) if at - minute <= end <= at + minute]
        return {self.given(counter, start, bucket, limits, s, t) for s in stops for t in (at - minute, at, at + minute, *ends)}

    def reach(self, begin, end, bucket):
        """Returns in which time a window's checks may lie, given that nodes with another release of the time zones judged by it, too."""
        moved, hour = may_move(end, bucket), 3600 * 1000
        near = any(begin - moved - 25 * hour <= at <= end + moved + hour for at in self.zones_changed)
        return (begin - moved, end + moved) if near else (begin, end)

    def unused(self, counter, start, bucket, end, names, agent):
        """Reports whether a row that counts nothing belongs to its counter."""
        encoded = [struct.pack(">I", len(text.encode())) + text.encode() for text in names[:2]]
        made = sha("spendgate counter 1", *encoded, struct.pack(">I", names[2]), names[3].encode())[:16]
        if made != counter or not self.fits_agent(names, agent):
            return False
        return start == -1 and bucket > 0 if start < 0 else not bucket or end == start + 61 * bucket

    @staticmethod
    def ends(sums, end):
        """Reports whether a row may have that end, given how far ends of recorded checks may move."""
        moved = may_move(sums[2], sums[1])
        return sums[5] - moved <= end <= sums[2] + moved

    def fits_agent(self, names, agent):
        return names[:3] not in self.budgets or names[0] in self.odd or agent == self.agent(names)

    def counters(self):
        (_, (now,)), = self.database.copy("SELECT (extract(epoch FROM now()) * 1000)::bigint")
        removable = integer(now) - 47 * 3600 * 1000
        taken = {key: sums for key, sums in self.taken.items() if not 0 < sums[2] + may_move(sums[2], sums[1]) <= removable}

        def name(names, start):
            return 'counter of budget "%s" of policy "%s" since version %d for %s, start_ms %d' % (names[1], names[0], names[2], names[3], start)

        ends, turns = {}, {}
        for _, (counter, start, bucket, end, count, since, used, *names, agent) in self.database.copy(f"SELECT {COUNTER} FROM budget_counters"):
            start, bucket, end, count, used = integer(start), integer(bucket), integer(end), integer(count), Decimal(used.decode())
            names = names[0].decode(), names[1].decode(), integer(since), names[2].decode()
            if start == -1:
                turns[counter] = names, bucket, end, agent or b""
            elif bucket:
                ends[counter] = max(ends.get(counter, 0), start + 61 * bucket)
            sums = taken.pop((counter, start), None)
            if 0 < end <= removable and (sums is None or 0 < sums[2] <= removable):
                continue
            last = start + bucket if bucket else sums[2] if sums else end
            begin = sums[6] if sums else earliest(start, bucket) if used or count else start
            first, last = self.reach(begin, last, bucket)
            if any(not last or day * 86400000 < last and first < (day + 1) * 86400000 for day in self.days):
                self.find("unchecked", name(names, start))
            elif sums is None:
                if used or count:
                    self.find("inserted", name(names, start))
                elif not self.unused(counter, start, bucket, end, names, agent or b""):
                    self.find("altered", name(names, start))
            elif [names, bucket, used, count] != [*sums[:2], *sums[3:5]] or not self.ends(sums, end) or not self.fits_agent(names, agent or b""):
                self.find("altered", name(sums[0], start))
        for counter, (names, bucket, end, agent) in turns.items():
            if end > removable and end != ends.get(counter, 0) and self.unused(counter, -1, bucket, end, names, agent):
                self.find("altered", name(names, -1))
        for (_, start), sums in taken.items():
            if not 0 < sums[5] - may_move(sums[5], sums[1]) <= removable:
                self.find("removed", name(sums[0], start))

        for _, (counter, who) in self.database.copy("SELECT counter_id, principal FROM budget_principals"):
            if self.met.pop((counter, who), None) is None and not self.days:
                self.find("inserted", f"principal {who.decode()} of counter {counter.hex()}")
        for (_, who), (names, end) in self.met.items():
            if end > removable:
                self.find("removed", 'principal of budget "%s" of policy "%s" since version %d for %s and principal %s' % (
                    names[1], names[0], names[2], names[3], who.decode()))

        notices = {}
        for charges in self.charges.values():
            charges.sort()
        self.excesses(name)
        for _, row in self.database.copy(f"SELECT {EXHAUSTION} FROM budget_exhaustions"):
            counter, start, exhaustion, at, most, most_count, bucket, policy, rule, since, subject, agent, used, count, percent, nth = row
            notices.setdefault((counter, integer(start)), []).append((integer(percent), integer(nth)))
            noted = [None if of is None else Decimal(of.decode()) for of in (most, most_count)]
            names = policy.decode(), rule.decode(), integer(since), subject.decode()
            if not self.exhaustion(counter, integer(start), integer(at) + EPOCH, integer(bucket), names, noted, agent or b"",
                                   Decimal(used.decode()), integer(count), integer(percent), integer(nth)):
                self.find("altered", f"exhaustion {exhaustion.hex()}")
        for key, (names, bucket, end, *_) in self.taken.items():
            if bucket or 0 < end + may_move(end, bucket) <= removable:
                continue
            for percent in {EXHAUSTED} | self.notified(key, names):
                if self.unnoted(key, names, percent, notices.get(key, ())):
                    what = "exhaustion" if percent == EXHAUSTED else f"notice of {percent} %"
                    self.find("removed", f"{what} of " + name(names, key[1]))

    def approval(self, fields, intact):
        if fields[35]:
            asks = json.loads(fields[35]) if intact else None
            if intact:
                self.actions[fields[0]] = action_of(fields)
                self.askers[fields[0]] = fields[29]
                self.asks[fields[0]] = asks, (fields[17], fields[5])
            self.asked[fields[0]] = asks and (
                asks["expires_ms"], asks["use_within_ms"], asks["required"], bytes.fromhex(asks["action_hash"]),
                fields[17], fields[16], fields[31] or fields[29], fields[32] or b"", payment_of(fields))
        if fields[34] and fields[10] == b"a":
            self.uses.setdefault(fields[34], []).append((fields[0], action_of(fields), payment_of(fields), integer(fields[37] or b"")))

    def approvals(self):
        minute = 60 * 1000000
        query = f"SELECT {APPROVAL} FROM approvals AS a FULL JOIN approval_uses AS u ON u.approval_id = a.id LEFT JOIN approval_deadlines AS d ON d.approval_id = a.id"
        for _, (a, created, expires, within, required, action, policy, agent, principal, owner, payment, used_by, deadline) in self.database.copy(query):
            found = len(self.findings)
            name, use = f"approval apr_{a.hex()}", f"use of approval apr_{a.hex()}"
            if created is None:
                self.find("inserted", use)
                continue
            created, expires, within, required, owner = integer(created), integer(expires), integer(within), integer(required), owner or b""
            unread = int.from_bytes(a[:6], "big") // 86400000 in self.days
            asked, made = a in self.asked, int.from_bytes(a[:6], "big") * 1000 - EPOCH
            terms = self.asked.pop(a, None)
            if not asked:
                if not unread:
                    self.find("inserted", name)
            elif terms is None:
                self.find("unchecked", name)
            elif terms != ((expires - created) // 1000, within, required, action, policy, agent, principal, owner, payment or b"") or abs(created - made) > minute:
                self.find("altered", name)
            counted, approved, ended, length = [], None, False, expires - created
            asks, version = self.asks.get(a, ({}, None))
            wanted = [({fold(n.encode()) for n in g.get("any_of") or [g["group"]]}, g["required"]) for g in asks.get("from", ())]
            anybody = required - sum(n for _, n in wanted)
            for number, fields in self.rulings.pop(f"apr_{a.hex()}", []):
                kind, who, at, digest = fields[1], fields[6] or b"", integer(fields[10]), fields[12]
                said = details(fields[11])
                team, of = (said.get("owner") or "").encode(), {fold(g.encode()) for g in said.get("groups", ())}
                names = {fold(n) for n in (fields[5], who, team) if n}
                key = self.askers.get(a, b"")
                now = self.stood(key, number)
                asker = {fold(n) for n in (key, principal, owner, *(now[0][1] if now else ())) if n}
                wrote = [w for w in self.authors.get(version, ()) if w[0]] if asks.get("exclude_author") else []
                wrote = {fold(n) for w in wrote for n in (*w, *(self.stood(w[0], number) or [(0, ())])[0][1]) if n}
                own = self.stood(fields[5] or b"", number)
                due = expires if approved is None else approved + within * 1000
                expiry, withdrawn = kind == b"approval.expired", kind == b"approval.withdrawn"
                if digest != action or ended or (at < due and not said.get("restored") if expiry else at > due + minute):
                    pass
                elif kind == b"approval.reopened":
                    counted = [c for c in counted if c[2].decode() not in said.get("keys", [])]
                    approved, expires = None, at + length
                    continue
                elif withdrawn:
                    if payment:
                        ended = True
                        continue
                elif not expiry and (names & asker or names & wrote):
                    pass
                elif not expiry and own and own[0][2] != said.get("groups", []):
                    pass
                elif not expiry and asks and wanted and anybody <= 0 and not any(of & g for g, _ in wanted):
                    pass
                elif expiry or kind == b"approval.denied":
                    ended = True
                    continue
                elif approved is None and not any(names & other[0] for other in counted):
                    counted.append((names, of, fields[5] or b"", number))
                    completes = said.get("completes", False)
                    enough = len(counted) >= required and (bool(asks) or completes)
                    if wanted:
                        enough = missing_of(wanted, anybody, [c[1] for c in counted]) == 0
                    approved = at if enough else None
                    if completes == enough:
                        continue
                self.find("inserted", f"change {number} of the configuration")
            uses = self.uses.pop(a, [])
            if used_by and used_by not in [check for check, *_ in uses] and int.from_bytes(used_by[:6], "big") // 86400000 not in self.days:
                self.find("inserted", use)
            for check, seen, paid, stops in uses:
                if not used_by:
                    self.find("removed", use)
                elif check != used_by:
                    self.find("inserted", f"check chk_{check.hex()}")
                at = int.from_bytes(check[:6], "big") * 1000 - EPOCH
                other = seen != self.actions.get(a, seen)
                if other or paid not in (b"", payment) or approved is None or ended or not approved - minute <= at <= approved + within * 1000 + minute:
                    self.find("inserted", use)
                    continue
                for names, _, decider, number in counted:
                    asker = {fold(n) for n in (self.askers.get(a, b""), principal, owner, *((self.stood(self.askers.get(a, b""), stops + 1) or [(0, ())])[0][1])) if n}
                    if names & asker or not self.counts(decider, number, stops, at, asker, policy, agent):
                        self.find("inserted", use)
            due = None if used_by or ended else expires if approved is None else approved + within * 1000
            deadline = None if deadline is None else integer(deadline)
            if len(self.findings) == found and deadline != due:
                self.find("removed" if deadline is None else "inserted" if due is None else "altered", f"deadline of {name}")
        for a, terms in self.asked.items():
            if terms:
                self.find("removed", f"approval apr_{a.hex()}")
        for a, uses in self.uses.items():
            self.find("inserted", f"use of approval apr_{a.hex()}")
        for rulings in self.rulings.values():
            for number, _ in rulings:
                self.find("inserted", f"change {number} of the configuration")

    def counts(self, key, number, stops, at, asker, policy, agent):
        """Reports whether what a key approved by a change counted for a check that was judged by a stop (S92)."""
        stood = [*self.stood(key, number), *(n for n in self.behind.get(key.decode(), []) if number < n[0] <= stops)]
        if not stood:
            return True  # a session
        epoch = datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)

        def may(said, until):
            try:
                expires = datetime.datetime.fromisoformat(said["expires_at"]) - epoch if "expires_at" in said else None
            except (TypeError, ValueError):
                return False
            return (bool(said.get("active")) and (expires is None or until < expires // datetime.timedelta(microseconds=1) + 3000000)
                    and (said.get("role") == "approver" or "approvals:decide" in said.get("scopes", ()))
                    and policy.decode() in said.get("policy_ids", [policy.decode()]) and agent.decode() in said.get("agent_ids", [agent.decode()]))

        ends = [*(n[4] for n in stood[1:]), at]
        return all(may(n[3], until) for n, until in zip(stood, ends)) and not {fold(n) for n in (key, *stood[-1][1]) if n} & asker

    def stood(self, key, number):
        """Returns the party behind a key when a change was made, and its groups, in a list: none or one."""
        return [n for n in self.behind.get(key.decode(), []) if n[0] < number][-1:]

    def author(self, number, fields):
        """Returns the author of a change of a policy or a draft: key_id and names then. The owner tells who had signed in."""
        key = fields[5] or b""
        owner = details(fields[11]).get("owner", "").encode()
        then = self.stood(key, number)
        return key, fields[6] or b"", owner or (then[0][1][1] if then else b"")

    def reviewed(self, number, fields, drafts, created):
        """Checks a decision about a draft, or the force on a version."""
        policy, version = fields[2], fields[3]
        if fields[1] == b"policy.forced":
            self.forced.add((policy, version))
            if created.get((policy, version)) != fields[12]:
                self.find("altered", f'force on policy "{policy.decode()}" version {integer(version)}')
            return
        draft = details(fields[11]).get("draft", 0)
        if draft != self.current.get(policy, 0) or drafts.get((policy, draft)) != fields[12]:
            self.find("altered", f'decision about a draft of policy "{policy.decode()}" by change {number}')
        if fields[1] == b"policy.draft_rejected":
            self.rejected.add(draft)
            return
        self.approved.setdefault(draft, []).append((integer(version), self.author(number, fields)))

    def consented(self, name, fields):
        """Checks that as many keys approved a version as the previous version asks, or that it was forced."""
        policy, version = fields[0], integer(fields[1])
        before, changes = self.changes_ask.get(policy, (0, None))
        self.changes_ask[policy] = version, fields[11]
        if before != version - 1 or changes is None or (policy, fields[1]) in self.forced:
            return
        asked = json.loads(changes)
        required = max(1, asked.get("required", 0), sum(g["required"] for g in asked.get("from", [])))
        draft, made = self.made.get((policy, fields[1]), (0, 0))
        wrote = self.wrote.get(draft, (b"",))
        now = self.stood(wrote[0], made)
        wrote = {fold(n) for n in (*wrote, *(now[0][1] if now else ())) if n}
        keys = {names[0] for beside, names in self.approved.get(draft, []) if beside == before and names[0] and not {fold(n) for n in names if n} & wrote}
        if not draft or draft in self.rejected or len(keys) < required:
            self.find("altered", name)

    def version(self, name, fields, previous):
        """Reads what a version of a policy says, and checks that its budgets count on from the previous version."""
        self.terms[fields[0], fields[1]] = dict(json.loads(fields[10] or b"{}"))
        self.consented(name, fields)
        version, budgets = integer(fields[1]), json.loads((fields[9] or b"\1{}")[1:])
        before, known = previous.get(fields[0], (0, {}))
        previous[fields[0]] = version, budgets
        updated = integer(fields[7]) // 1000 + 946684800000
        for rule, b in known.items():
            terms = self.budgets.get((fields[0].decode(), rule, b["version"]))
            if terms and terms[-1][0] == before:
                terms[-1][2] = updated
        for rule in json.loads(fields[4], parse_float=Decimal, parse_int=Decimal):
            if rule.get("rule_id") in budgets:
                key = fields[0].decode(), rule["rule_id"], budgets[rule["rule_id"]]["version"]
                limits = [rule["parameters"].get(limit) for limit in ("limit", "max_count")]
                limits = [limit if isinstance(limit, Decimal) else None for limit in limits]  # null and blank mean no limit
                self.budgets.setdefault(key, []).append([version, updated, None, *limits])
                self.notify[*key, version] = {int(n) for n in rule["parameters"].get("notify_at") or () if isinstance(n, Decimal)}
                if "agent_id" in (rule["parameters"].get("per") or ()):
                    self.per_agent.add(key)
        for rule, b in budgets.items():
            same = rule in known and known[rule]["identity"] == b["identity"]
            since = known[rule] if same else {"identity": b["identity"], "version": version, "at_ms": updated}
            if version == before + 1 and b != since:
                self.find("altered", name)

    def freeze(self, fields):
        """Notes since when, and until when, what a freeze is of was frozen (S87)."""
        said = details(fields[11])
        scope = list((said.get("scope") or {}).items()) or [("all", True)]
        if fields[1] == b"freeze.created":
            until = said.get("until_ms")
            self.freezes[fields[2]] = [*scope[0], integer(fields[10]), until and until * 1000 - EPOCH, integer(fields[0]), 0, 0]
            self.restores += [integer(fields[0])] if fields[4] == b"system" else []
        elif fields[1] in (b"freeze.released", b"freeze.ended") and fields[2] in self.freezes and not self.freezes[fields[2]][6]:
            self.freezes[fields[2]][5:] = integer(fields[10]), integer(fields[0])

    def configuration(self):
        self.current, self.promoted, self.made, self.wrote, self.approved, self.forced, self.rejected, self.changes_ask = {}, {}, {}, {}, {}, set(), set(), {}
        created, newest, drafts, previous, seq, before = {}, {}, {}, {}, 0, [ZERO]
        promoted = {}  # draft to the version made from it: its name, and what the draft says of it
        for row, fields in self.database.copy(f"SELECT {CHANGE},head FROM changes ORDER BY seq"):
            number, head = integer(fields[0]), fields[13]
            name = f"change {number} of the configuration"
            if number != seq + 1:
                self.find("removed", f"change {seq + 1} of the configuration")
                before = []
            seq = number
            self.links[seq] = head
            self.made_at.append((name, seq, integer(fields[10])))
            if object_of(fields[11]) is None:
                self.find("altered", name)
            if fields[1].startswith(b"approval."):
                self.rulings.setdefault(fields[2].decode(), []).append((number, fields))
            elif fields[1].startswith(b"freeze."):
                self.freeze(fields)
            elif fields[1].startswith(b"grant."):
                self.grant(name, number, fields)
            elif fields[1] == b"webhook.deleted":
                newest.pop(fields[2], None)
            elif fields[1] == b"zones.changed":
                self.zones_changed.append((integer(fields[10]) + EPOCH) // 1000)
            elif fields[1] == b"events.removed":
                self.removal(name, fields)
            elif fields[1] == b"payments.removed":
                self.removed_payments(name, fields)
            elif fields[1] in (b"policy.draft_approved", b"policy.draft_rejected", b"policy.forced"):
                self.reviewed(number, fields, drafts, created)
            elif fields[1].startswith(b"policy.draft"):
                if fields[1] == b"policy.draft_promoted":
                    self.promoted[number + 1] = self.current.get(fields[2], 0)
                self.current[fields[2]] = number if fields[1] == b"policy.draft_put" else 0
                self.wrote[number] = self.author(number, fields)
                drafts[fields[2], number] = fields[12]
            elif fields[1] != b"policy.created":
                newest[fields[2]] = fields[12]
                if fields[1].startswith(b"key."):
                    self.stops.append((number, (integer(fields[10]) + EPOCH) // 1000))
                    said = details(fields[11])
                    names = [(said.get(n) or "").encode() for n in ("principal", "owner")]
                    self.behind.setdefault(fields[2].decode(), []).append((number, names, said.get("groups", []), said, integer(fields[10])))
                    if said.get("stopped"):
                        self.key_stops.setdefault(fields[2], []).append(number)
                    if said.get("granter"):
                        self.granters.setdefault(fields[2], []).append(number)
            elif (fields[2], fields[3]) in created:
                self.find("altered", name)
            else:
                created[fields[2], fields[3]] = fields[12]
                self.made[fields[2], fields[3]] = self.promoted.get(number, 0), number
                self.authors[fields[2], fields[3]] = [self.author(number, fields), self.wrote.get(self.promoted.get(number, 0), (b"",))]
            hashed = struct.pack(">h", 13) + row[2:len(row) - 4 - len(head)]
            computed = [sha("spendgate change 1", previous, hashed) for previous in before]
            if before and head not in computed:
                self.find("altered", name)
                before = [head, computed[-1]]
            else:
                before = [head]
        for row, fields in self.database.copy(f"SELECT {POLICY} FROM policies ORDER BY generation"):
            name = f'policy "{fields[0].decode()}" version {integer(fields[1])}'
            stored = created.pop((fields[0], fields[1]), None)
            if stored == sha("spendgate policy 1", row):
                draft, number = self.made[fields[0], fields[1]]
                self.made_at.append((name, number, integer(fields[7])))
                promoted[draft] = name, [fields[i] or b"" for i in (2, 3, 4, 5, 10, 11)]
            else:
                self.odd.add(fields[0].decode())
                self.find("altered" if stored else "inserted", name)
                if stored:
                    continue
            try:
                self.version(name, fields, previous)
            except MALFORMED:  # of an inserted one
                self.find("altered", name)
        for row, fields in self.database.copy(f"SELECT {DRAFT} FROM drafts"):
            stored = drafts.pop((fields[0], integer(fields[1])), None)
            if stored != sha("spendgate draft 1", row):
                self.find("altered" if stored else "inserted", f'draft of policy "{fields[0].decode()}" by change {integer(fields[1])}')
            elif (made := promoted.get(integer(fields[1]))) and made[1] != [fields[i] or b"" for i in (3, 4, 5, 6, 8, 9)]:
                self.find("altered", made[0])
        for policy, number in drafts:
            self.find("removed", f'draft of policy "{policy.decode()}" by change {number}')
        for kind, prefix, columns in ("key", "key_", KEY), ("webhook", "whk_", WEBHOOK):
            for row, fields in self.database.copy(f"SELECT {columns} FROM {kind}s"):
                key = f"{prefix}{fields[0].hex()}"
                stored = newest.pop(key.encode(), None)
                if stored is None:
                    self.find("inserted", f"{kind} {key}")
                elif stored != sha(f"spendgate {kind} 1", row):
                    self.find("altered", f"{kind} {key}")
        for policy, version in created:
            self.odd.add(policy.decode())
            self.find("removed", f'policy "{policy.decode()}" version {integer(version)}')
        for key in newest:
            self.find("removed", f"{'webhook' if key.startswith(b'whk_') else 'key'} {key.decode()}")

    def keys(self):
        """Checks that two uses of an idempotency key are a day apart, and that the key has its row until then."""
        (_, (now,)), = self.database.copy("SELECT now()")
        now, minute, day = integer(now), 60 * 1000000, 86400 * 1000000

        def at(check):
            return int.from_bytes(check[:6], "big") * 1000 - EPOCH

        def name(check):
            return f"idempotency key of check chk_{check.hex()}"

        newest = {}
        for key, checks in self.keyed.items():
            checks.sort()
            for first, second in itertools.pairwise(checks):
                if at(second) - at(first) < day - minute:
                    self.find("removed", name(first))
            newest[key] = checks[-1]
        for _, (key, check, expires) in self.database.copy("SELECT key_hash, check_id, expires_at FROM idempotency_keys"):
            expires, last = integer(expires), newest.pop(key, None)
            if check == last:
                if abs(expires - at(check) - day) > minute:
                    self.find("altered", name(check))
            elif last and at(last) + day - minute > now:
                self.find("altered", name(last))
            elif expires > now and check not in self.lost and int.from_bytes(check[:6], "big") // 86400000 not in self.days:
                self.find("inserted", name(check))
        for check in newest.values():
            if at(check) + day - minute > now:
                self.find("removed", name(check))

    def redemptions(self):
        """Checks what follows from the steps of checks: see Redemptions in the document."""
        minute, quarter, found = 60 * 1000000, 15 * 60 * 1000000, []

        def at(identifier):
            return int.from_bytes(identifier[:6], "big") * 1000 - EPOCH

        def shares(fields, by):
            return fields[12] == by[12] or fold(fields[13] or fields[12]) == fold(by[13] or by[12])

        noted = {check: times for _, (check, *times) in self.database.copy("SELECT check_id, redeemed_at, doubted_at FROM redemptions_open")}
        for check in [*self.steps, *(noted.keys() - self.steps.keys())]:
            redeemed, doubt, reported, unredeemed, other = None, None, False, None, None
            taken, lapsed, ended, held = None, None, None, []  # the step by which it is redeemed
            for o in sorted(self.steps.get(check, ()), key=lambda o: o[4] or b""):
                status, stray, said = o[6], False, object_of(o[18] or b"") or {}
                flags = set(said.get("flags", ()))
                void = flags & {"lapsed", "stopped", "replaced", "superseded"}
                if void:
                    lapsed, ended = o if "lapsed" in flags else lapsed, o if "stopped" in flags else ended
                    stray = status != b"v" or integer(o[4]) != 1 or o[12] != b"system"
                elif status == b"r":
                    stray = redeemed is not None or integer(o[4]) != 1
                    redeemed = redeemed or (None if stray else o)
                    taken, held = redeemed, [redeemed]
                elif status == b"t":
                    stray = redeemed is None or reported
                    if not stray:
                        stray, taken, doubt = not shares(o, taken), o, None
                        held.append(o)
                elif status == b"d":
                    stray = redeemed is None or doubt is not None or reported
                    if not stray:
                        doubt = o
                        stray = at(o[0]) < at(taken[0]) + quarter - minute if o[12] == b"system" else not shares(o, taken)
                elif redeemed is None:
                    unredeemed = unredeemed or ((o, flags) if status == b"x" else None)
                elif not shares(o, taken) and not (status == b"x" and any(shares(o, by) for by in held)):
                    stray = o[15] != b"\1" or not reported and doubt is None
                    other = other or (None if stray else o)
                if stray:
                    found.append((check, "inserted", f"outcome {o[0].hex()}"))
                reported = reported or status in (b"x", b"f", b"v")
            due, row = redeemed is not None and not reported, noted.get(check)
            if (row is not None) != due:
                found.append((check, "removed" if due else "inserted", f"open redemption of check chk_{check.hex()}"))
            elif due:
                times = [(taken, row[0]), (doubt, row[1])]
                if any((o is None) != (t is None) or o and abs(integer(t) - at(o[0])) > minute for o, t in times):
                    found.append((check, "altered", f"open redemption of check chk_{check.hex()}"))
            fields = self.judged.get(check)
            if not fields:
                continue
            terms = self.terms.get((fields[17], fields[5]))

            def before(o, stops, judged=integer(fields[37] or b"")):
                return any(judged < s <= integer(o[17] or b"") for s in stops)

            for o, wrong in (redeemed, True), (ended, False):
                if o and wrong == before(o, self.key_stops.get(fields[29], ())):
                    found.append((check, "inserted", f"outcome {o[0].hex()}"))
            early = lapsed and terms is not None and at(lapsed[0]) < at(check) + terms.get("within_minutes", 15) * minute - minute
            if early and not before(lapsed, self.restores):
                found.append((check, "inserted", f"outcome {lapsed[0].hex()}"))
            elif lapsed and terms is not None and not terms.get("required") and fields[38:39] in ([], [None]):
                found.append((check, "inserted", f"outcome {lapsed[0].hex()}"))
            elif redeemed is None:
                flagged = fields[38:39] not in ([], [None]) and unredeemed and "unredeemed" in unredeemed[1]
                if unredeemed and not flagged and terms and terms.get("required"):
                    found.append((check, "inserted", f"outcome {unredeemed[0][0].hex()}"))
            elif fields[10] != b"a" or terms is not None and at(redeemed[0]) > at(check) + terms.get("within_minutes", 15) * minute + minute:
                found.append((check, "inserted", f"outcome {redeemed[0].hex()}"))
            elif other and {fold(n) for n in (fields[29], fields[31], fields[32]) if n} & {fold(n) for n in (other[12], other[13]) if n}:
                found.append((check, "inserted", f"outcome {other[0].hex()}"))
        for check, kind, subject in found:
            if check not in self.stray:
                self.find(kind, subject)

    def pay(self, says, row):
        """Notes what is recorded of a payment: a check of it, or a step of the course of one of its checks."""
        self.paid.setdefault(payment_hash(says["namespace"].encode(), says["key"]), []).append((says["version"], *row))

    def removed_payments(self, name, fields):
        """Notes the payments that a change says were removed: those that ended 35 days ago."""
        said, at = object_of(fields[11]) or {}, (integer(fields[10]) + EPOCH) // 1000
        before, removed = said.get("before_ms"), said.get("removed")
        fits = fields[2] == b"/payments" and type(before) is int and isinstance(removed, dict) and removed
        if not fits or before > at + 60000 - KEPT or not all(re.fullmatch("[0-9a-fA-F]{64}", h) and type(v) is int for h, v in removed.items()):
            self.find("inserted", name)
            return
        for hashed, version in removed.items():
            self.removals.setdefault(bytes.fromhex(hashed), []).append((at, before, version))

    def named(self):
        """Notes what the steps of checks change of payments, and returns by payment the steps that should name it and do not."""
        own = {r[2]: hashed for hashed, rows in self.paid.items() for r in rows}  # so far there are checks only
        silent = {}
        for check, steps in self.steps.items():
            before, redeemed, unnamed = None, None, None  # the status of the report before; the payments of the redemption
            for o in sorted(steps, key=lambda o: o[4] or b""):
                of = (object_of(o[18] or b"") or {}).get("of") or []
                hashes = [payment_hash(says["namespace"].encode(), says["key"]) for says in of]
                if o[6] != b"d":
                    unnamed = unnamed or (o[0] if not of else None)
                    for hashed in set(redeemed[1] if redeemed else ()) - set(hashes):
                        silent.setdefault(hashed, []).append((check, o[0]))
                if o[6] == b"r" and not redeemed and integer(o[4]) == 1:
                    redeemed = o[0], hashes
                for says in of:
                    self.pay(says, (o[0], check, o[6].decode(), says, (o, before, len(of) == 1)))
                before = o[6] if o[6] in (b"x", b"f", b"v") else before
            if check in own and (step := unnamed if not redeemed else redeemed[0] if own[check] not in redeemed[1] else None):
                silent.setdefault(own[check], []).append((check, step))
        return silent

    def payments(self):
        """Makes every payment again from what is recorded of it, and compares it with its row."""
        silent = self.named()
        columns = "payment_hash,namespace,payment_key,version,first_check,state"
        rows = {fields[0]: fields[1:] for _, fields in self.database.copy(f"SELECT {columns} FROM payments")}
        for hashed in self.paid.keys() | rows.keys() | self.removals.keys() | silent.keys():
            all_of, row = sorted(self.paid.get(hashed, ()), key=lambda r: r[:2]), rows.get(hashed)
            if not any(check in self.lost or check in self.stray for check in [*(r[2] for r in all_of), *(s[0] for s in silent.get(hashed, ()))]):
                self.payment(f"payment {hashed[:16].hex()}", all_of, row, self.removals.get(hashed, []), silent.get(hashed, ()))

    def payment(self, name, all_of, row, removals, silent):
        """Compares what is recorded of a payment, from one removal of it to the next. What is before a removal is much older."""
        def removal(identifier):
            return next((n for n, (at, *_) in enumerate(removals) if int.from_bytes(identifier[:6], "big") < at - KEPT // 2), len(removals))

        for n, (_, before, had) in enumerate([*removals, (0, 0, 0)]):
            life = [r for r in all_of if removal(r[1]) == n]
            state, ended = self.replayed(life)
            version, first = state.pop("version"), state.pop("first")
            gap = any(r[0] > version for r in life)
            if gap and not self.days:
                self.find("removed", name)
            if gap or n < len(removals) and version < had and self.days:
                return
            if n < len(removals) and (version != had or not ended(before) or any(int.from_bytes(r[1][:6], "big") > before + 60000 for r in life)):
                self.find("removed", name)
                return
        for check, step in silent:
            n = removal(check)
            if (n == len(removals) or int.from_bytes(step[:6], "big") < removals[n][0] - 60000) and check not in self.stray:
                self.find("inserted", f"outcome {step.hex()}")
        names = {(r[4]["namespace"], r[4]["key"]) for r in life}
        if not row:
            if version:
                self.find("removed", name)
        elif self.days and integer(row[2]) > version:
            return
        elif not version:
            self.find("inserted", name)
        elif (version, first, state, names) != (integer(row[2]), row[3], object_of(row[4]), {(row[0].decode(), row[1].decode())}):
            self.find("altered", name)

    def replayed(self, all_of):
        """Makes a payment from what is recorded of it, up to a version that is missing, and finds what no node would record."""
        version, round_, attempt, hours, redeemed, current, nonces, executed = 0, 0, 0, 0, 0, bytes(16), [], []
        asked, opened, refused, by_nonce, rounds, held = set(), set(), set(), {}, {}, None  # of checks; the redeemed one that was not given back

        def executions():
            return [e for e in executed if e["round"] == round_ and not e["back"]]

        def taken(at):
            if executions():
                return not hours or at + 60000 < executions()[0]["at"] + hours * 3600000
            return current in opened

        for number, row, check, status, says, more in all_of:
            if number > version + 1:
                break
            at, now = int.from_bytes(row[:6], "big"), round_
            stray = number <= version
            if not stray and status == "c":
                version, fields = number, more
                stray = taken(at) or fields[10] == b"b" and fields[3] is not None
                hours = says.get("again_after_hours", 0) if number == 1 else hours
                if executions():
                    round_, held = round_ + 1, None
                attempt, current, rounds[check] = attempt + (fields[34] is None), check, round_
                asked.add(check)
                (opened if fields[10] == b"a" else refused).add(check)
                stray = stray or rounds.get(fields[34], round_) != round_
                made = {"version": number, "attempt": attempt, "round": round_, "again_after_hours": hours}
                stray = stray or any(says.get(member, 0) != value for member, value in made.items())
            elif not stray:
                (o, before, alone), version = more, number
                unknown = check not in rounds
                flags, nonce, named = set((object_of(o[18]) or {}).get("flags") or ()), (o[16] or b"").hex(), says.get("by_nonce", False)
                shown, first, own = executions()[0]["check"] if executions() else current, integer(o[5]) == 1, rounds.setdefault(check, says.get("round", 0))
                stray = named and nonce in nonces or unknown and status != "r"
                if status == "r" and check not in asked:
                    stray = stray or taken(at)
                elif status in "rt":
                    stray = stray or shown != check or status == "r" and bool(executions() or held) or status == "t" and named != by_nonce.get(check, False)
                elif status == "x" and first and check in asked and check not in by_nonce:
                    stray = "unredeemed" not in flags
                twice = status == "x" and before != b"x" and any(e["check"] != check and e["round"] == own and not e["back"] for e in executed)
                stray = stray or twice != ("paid_twice" in flags) and (twice or alone)
                nonces += [nonce] if named else []
                earlier = 0
                if status == "r":
                    if current != check:
                        round_, current, attempt = round_ + bool(executions()), check, attempt + 1
                        rounds[check] = own = round_
                    earlier, redeemed, by_nonce[check], held = redeemed, redeemed + 1, named, check
                    opened.add(check)
                elif status in "xfv":
                    known = [e for e in executed if e["check"] == check]
                    if status == "x" and not known:
                        executed.append({"check": check, "round": own, "at": at})
                        known = executed[-1:]
                    for e in known:
                        e["at"], e["back"] = at if e.get("back") and status == "x" else e["at"], status != "x"
                if status in "xfv":
                    opened = opened - {check} if status != "x" and (o[7] == b"d" or check in refused) else opened | {check}
                    held = None if held == check and check not in opened else held
                made = {"round": own, "earlier": earlier, "by_nonce": named}
                stray = stray or any(says.get(member, 0) != value for member, value in made.items())
            if stray and check not in self.stray:
                self.find("inserted", f"check chk_{check.hex()}" if status == "c" else f"outcome {row.hex()}")
        def ended(before):
            if executions():
                return not hours or before + 60000 >= executions()[0]["at"] + hours * 3600000
            return current not in opened

        first = next((r[2] for r in all_of if r[0] == 1), None)
        state = {"version": version, "first": first, "attempt": attempt, "current": current.hex(), "round": round_, "again_after_hours": hours,
                 "redeemed": redeemed, "nonces": nonces, 
                 "executions": [{"check": e["check"].hex(), "at": stamp(e["at"]), **{m: e[m] for m in ("round", "back") if e[m]}} for e in executed]}
        return {member: value for member, value in state.items() if value or member in ("version", "first", "attempt", "current")}, ended

    def source(self, kind, source):
        """Names the source of an event of that type."""
        if source[:8] == bytes(8):
            return f"change {int.from_bytes(source, 'big')} of the configuration"
        name = {"violation.recorded": "violation viol_", "approval.requested": "approval apr_", "approval.used": "use of approval apr_"}.get(kind)
        return (name or ("exhaustion " if kind.startswith("budget.") else "outcome ")) + source.hex()

    def due(self):
        """Returns (source, type) of the events due by event_state, with policy and agent (None if unknown), and the state."""
        due = {}
        query = "SELECT count(*), max(last), bool_or(s.cluster <> c.system_identifier) FROM event_state AS s, pg_control_system() AS c"
        for _, (rows, last, elsewhere) in self.database.copy(query):
            state = integer(rows), integer(last or b"\0"), elsewhere == b"\1"
        numbered = "(SELECT below FROM event_state) > %s AND xid <> ALL ((SELECT pending FROM event_state)::xid8[])"
        hidden = "(SELECT cluster FROM event_state) = (SELECT system_identifier FROM pg_control_system()) AND greatest(xid, %s) >= pg_snapshot_xmax(pg_current_snapshot())"

        def rows(columns, table, position="xid"):
            query = f"SELECT {columns}, {numbered % position}, {hidden % position} FROM {table}"
            return (fields for _, fields in self.database.copy(query))

        def note(source, types, of, is_due, is_hidden):
            if is_hidden == b"\1":
                self.find("altered", f"event of {self.source(types[0] if types else '', source)}")
            for kind in types if is_due == b"\1" else ():
                due[source, kind] = of

        approvals = {}
        for a, policy, agent, *end in rows("id, policy_id, agent_id", "approvals"):
            approvals[a.hex().encode()] = policy, agent
            note(a, ["approval.requested"], (policy, agent), *end)
        for a, *end in rows("approval_id", "approval_uses", "position"):
            note(a, ["approval.used"], approvals.get(a.hex().encode(), (None, None)), *end)
        for seq, kind, subject, version, said, *end in sorted(rows("seq, kind, subject, version, details", "changes", "position"), key=lambda row: row[0]):
            policy, agent = approvals.get(subject[4:], (None, None))
            if kind.startswith(b"freeze."):
                scope = details(said).get("scope") or {}
                policy, agent = (scope[n].encode() if n in scope else None for n in ("policy_id", "agent_id"))
            elif kind.startswith(b"grant."):
                of = details(said)
                policy, agent = (of[n].encode() if n in of else None for n in ("policy_id", "agent_id"))
            elif kind.startswith(b"policy."):
                policy = subject
            types = ["approval.decided"] * (kind in (b"approval.approved", b"approval.denied"))
            if kind == b"approval.approved":
                occurred = details(said).get("completes")
            elif kind == b"policy.draft_put":
                occurred = version is not None
            else:
                occurred = kind in CHANGE_EVENTS
            if occurred:
                types.append({b"policy.draft_put": "policy.draft_submitted", b"key.created": "key.changed"}.get(kind, kind.decode()))
            note(bytes(8) + seq, types, (policy, agent), *end)
        for source, policy, agent, percent, *end in rows("id, policy_id, agent_id, percent", "budget_exhaustions"):
            note(source, ["budget.exhausted" if integer(percent) == EXHAUSTED else "budget.threshold"], (policy, agent), *end)
        for source, policy, agent, *end in rows("id, policy_id, agent_id", "violations"):
            note(source, ["violation.recorded"], (policy, agent), *end)
        of = {check: (policy, agent) for _, (check, policy, agent) in self.database.copy("SELECT check_id, policy_id, agent_id FROM checks")}
        for source, check, status, release, excess, payment, *end in rows("outcome_id, check_id, status, release, excess, payment", "outcomes"):
            twice = "paid_twice" in ((object_of(payment or b"") or {}).get("flags") or ())
            types = [{b"r": "check.redeemed", b"t": "check.taken_over", b"d": "check.in_doubt"}.get(status, "outcome.reported")]
            others = {"outcome.release_pending": release == b"p", "outcome.exceeded": excess in (b"e", b"p"), "payment.paid_twice": twice}
            note(source, types + [kind for kind, is_due in others.items() if is_due], of.get(check), *end)
        return due, state

    def removal(self, name, fields):
        """Checks a change that records removed events: those from before a day that ended 30 days ago."""
        try:
            said = json.loads(fields[11])
            up_to, removed, day = said["up_to"], said["removed"], datetime.date.fromisoformat(said["before"])
            before = (day - datetime.date(2000, 1, 1)).days * 86400 * 1000000
            late = before > integer(fields[10]) - 30 * 86400 * 1000000 + 60 * 1000000
            numbers = type(up_to) is int and type(removed) is int and 0 < removed < 1 << 63 and self.floor < up_to < 1 << 63
            counts = fields[2] == b"/v1/events" and numbers and before >= self.kept_from and not late and day.isoformat() == said["before"]
            total = self.removed + removed
        except (ValueError, KeyError, TypeError, RecursionError):
            counts = False
        if counts:
            self.floor, self.removed, self.kept_from = up_to, total, before
        else:
            self.find("inserted", name)

    def events(self):
        due, (rows, last, elsewhere) = self.due()
        months = {month.decode(): [0, integer(n)] for _, (month, n) in self.database.copy("SELECT to_char(month, 'YYYY-MM'), rows FROM archived_violations")}
        times = {bytes(8) + seq: integer(at) for _, (seq, at) in self.database.copy("SELECT seq, at FROM changes")}
        times.update({source: integer(at) for _, (source, at) in self.database.copy("SELECT id, at FROM budget_exhaustions")})
        used = {a: check for _, (a, check) in self.database.copy("SELECT approval_id, check_id FROM approval_uses")}
        before, latest, change, decided, asked, gone = self.floor, None, bytes(16), False, set(), 0

        def happened(source, kind):
            if source[:8] == bytes(8) or kind.startswith("budget."):
                return times.get(source)
            source = used.get(source) if kind == "approval.used" else source
            return source and int.from_bytes(source[:6], "big") * 1000 - EPOCH

        for _, (number, source, kind, policy, agent) in self.database.copy("SELECT sequence, source, type, policy_id, agent_id FROM events ORDER BY sequence"):
            number, kind = integer(number), kind.decode()
            if number <= self.floor:
                continue
            if (number - before - 1) % 1000000:
                self.find("removed", f"event {before + 1}")
            before, archived = number, kind == "violation.recorded" and months.get(month_of(source))
            if archived:
                archived[0] += 1
            if (source, kind) not in due:
                if not archived:
                    self.find("inserted", f"event {number}")
            elif due.pop((source, kind)) not in (None, (policy, agent)):
                self.find("altered", f"event {number}")
            at = happened(source, kind)
            if source[:8] == bytes(8):
                if source < change or source == change and not decided:
                    self.find("altered", f"event {number}")
                change, decided = source, kind == "approval.decided"
            elif kind == "approval.requested":
                asked.add(source)
            elif kind == "approval.used":
                if source not in asked and happened(source, "approval.requested") >= self.kept_from:
                    self.find("altered", f"event {number}")
            if at is None:
                continue
            if latest is not None and at < latest - 60 * 1000000:
                self.find("altered", f"event {number}")
                latest = at
            latest = at if latest is None else max(at, latest)
        for source, kind in due:
            at = happened(source, kind)
            if at is None or at >= self.kept_from:
                self.find("removed", f"event of {self.source(kind, source)}")
            elif kind != "violation.recorded" or month_of(source) not in months:
                gone += 1
        for month, (n, noted) in months.items():
            begun = (datetime.date.fromisoformat(month + "-01") - datetime.date(2000, 1, 1)).days * 86400 * 1000000
            if n > noted or n < noted and begun >= self.kept_from:
                self.find("altered", f"events of month {month}")
            else:
                gone += noted - n
        if gone != self.removed:
            self.find("altered", f"events up to number {self.floor}")
        if rows != 1 or last < before or elsewhere:  # of another cluster: nothing gets a number, the feed stands still
            self.find("altered", "table event_state")
        elif (last - before) % 1000000:
            self.find("removed", f"event {before + 1}")

    def schema(self, folder):
        """Compares the catalogue with schema.txt, by the statement of schema.sql."""
        with open(os.path.join(folder, "schema.txt"), encoding="utf-8") as f:
            made = [line.rstrip("\n").split("\t", 1) for line in f]
        with open(os.path.join(folder, "schema.sql"), encoding="utf-8") as f:
            query = f.read().strip()
        (_, (schema,)), = self.database.copy("SELECT current_schema()")
        found = self.database.copy(query.replace("{schema}", "'" + schema.decode().replace("'", "''") + "'"))
        found = [(name.decode(), (definition or b"").decode()) for _, (name, definition) in found]
        days = sorted({name[6:] for name, _ in found if name.startswith("table checks_2")})
        expected = {}
        for name, definition in made:
            for day in days if "checks_DAY" in name else [""]:
                expected.setdefault(name.replace("checks_DAY", day), []).append(definition)
        overloaded = {name.split("(")[0] for name in expected if name.startswith("function ")}
        rest = []
        for name, definition in found:
            if definition in expected.get(name, []):
                expected[name].remove(definition)
            elif expected.get(name):
                self.find("altered", name)
                expected[name].pop(0)
            else:
                rest.append(name)
        for name in rest:
            if name.split(" ")[0] in ("trigger", "default", "constraint", "unique", "setting") or name in expected or name.split("(")[0] in overloaded:
                self.find("inserted", name)
        for name, left in expected.items():
            if left and not name.startswith("trigger closed on "):
                self.find("removed", name)

    def checkpoints(self, lines, key):
        previous, state, steps, disputes, accepts, before = ZERO, {}, {}, {}, [], 0

        def dispute(chain, number, at, kind, subject):
            disputes.setdefault(chain, []).append((at, number, kind, subject))

        def grow(chain, seq):
            known = steps.setdefault(chain, [])
            if seq > 0 and (not known or known[-1][0] < seq):
                known.append((seq, before))

        for number, text in enumerate(lines, 1):
            text = text.rstrip(b"\n")
            name = f"checkpoint on line {number}"
            signed, mark, rest = text.rpartition(b',"signature":"')
            try:
                line = json.loads(text)
            except ValueError:
                continue  # torn
            if not mark:
                continue
            try:
                signature = base64.b64decode(rest[:-2])
            except ValueError:
                signature = b""
            if not verify(key, signature, b"spendgate checkpoint 1\n" + signed) or line["checkpoint"] != 1:
                self.find("altered", name)
                previous = hashlib.sha256(text).digest()
                continue
            if bytes.fromhex(line["previous"]) != previous:
                self.find("altered", name)
            previous = hashlib.sha256(text).digest()
            heads = {bytes.fromhex(h["chain"]): (h["seq"], bytes.fromhex(h["head"])) for h in line["heads"]}
            state = heads if line["full"] else {**state, **heads}
            parts = [chain_id + struct.pack(">q", state[chain_id][0]) + state[chain_id][1] for chain_id in sorted(state)]
            if len(state) != line["chains"] or sha("spendgate heads 1", *parts).hex() != line["digest"]:
                self.find("altered", name)
            at, seq = moment(line["time"]), line["changes"]["seq"]
            for chain_id, (number, head) in heads.items():
                grow(chain_id, number)
                there = self.heads.get((chain_id, number))
                if there is None and self.beyond(chain_id, number):
                    continue
                name = f"chain {chain_id.hex()}"
                if there is None:
                    last = max((n for c, n in self.heads if c == chain_id), default=0)
                    dispute(chain_id, number, at, "removed", name if last < number else f"batch {number} of {name}")
                elif there != head:
                    dispute(chain_id, number, at, "altered", f"batch {number} of {name}")
            grow(None, seq)
            before = at
            if seq and self.links.get(seq) != bytes.fromhex(line["changes"]["head"]):
                dispute(None, seq, at, "altered" if seq in self.links else "removed", f"change {seq} of the configuration")
            if said := line.get("acknowledged"):
                # Nothing else is known about a chain whose end is gone.
                lost = {bytes.fromhex(chain["chain"]): chain["has"] if chain["has"] < chain["had"] else 0 for chain in said["chains"]}
                lost |= {None: 0} if said["changes"] else {}
                accepts.append((at, lost, {None: seq, **{chain_id: number for chain_id, (number, _) in heads.items()}}))
        for chain, found in disputes.items():
            unknown = [of for of in found if not any(at > of[0] and of[1] > lost.get(chain, 1 << 63) for at, lost, _ in accepts)]
            *_, kind, subject = (unknown or found)[0]
            self.find(kind if unknown else "acknowledged", subject)
        self.late(steps, accepts, before)

    def late(self, steps, accepts, end):
        """Finds what is older than a checkpoint that should cover it and does not."""
        def held(name, chain, seq, at):
            lacking = next((before for number, before in steps.get(chain, ()) if number >= seq), end)
            if lacking and lacking > (at + 60 * 1000000) * 1000:
                known = any(time > lacking and ends.get(chain, 0) >= seq for time, _, ends in accepts)
                self.find("acknowledged" if known else "inserted", name)

        for (chain, seq), ids in self.entries.items():
            for i in ids:
                held(f"outcome {i.hex()}" if i[6] >> 4 == 8 else f"check chk_{i.hex()}", chain, seq, int.from_bytes(i[:6], "big") * 1000 - EPOCH)
        for name, seq, at in self.made_at:
            held(name, None, seq, at)


# Ed25519, to verify: a point is (x, y) on -x^2 + y^2 = 1 + d x^2 y^2 modulo P. As in RFC 8032, it is
# written (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z, so that a sum needs no division.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * D * p[3] * q[3] % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def same(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def times(n, point):
    total = (0, 1, 1, 0)
    while n:
        if n & 1:
            total = add(total, point)
        point, n = add(point, point), n >> 1
    return total


def point(encoded):
    """Decodes a point; None if the bytes encode none."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or y >= P:
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def verify(key, signature, message):
    a, r, s = point(key), point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L or len(signature) != 64:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    return same(times(s, BASE), add(r, times(h, a)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--checkpoint")
    parser.add_argument("--public-key", action="append", default=[])
    parser.add_argument("--archive")
    parser.add_argument("--schema", help="the folder with schema.txt and schema.sql; without it the schema is not compared")
    args = parser.parse_args()
    v = Verifier(args.url)
    keys = [base64.b64decode(key) for key in args.public_key]
    listed = v.soundly("the batches", v.batches, args.archive, keys) or {}
    checks = len(listed)
    v.soundly("the outcomes", v.outcomes, listed)
    v.soundly("the configuration", v.configuration)  # before the checks, which are compared with freezes and grants
    v.soundly("the checks", v.checks, listed, args.archive)
    for name, check in (
        ("the counters", v.counters), ("the approvals", v.approvals), ("the keys", v.keys),
        ("the redemptions", v.redemptions), ("the payments", v.payments), ("the events", v.events),
    ):
        v.soundly(name, check)
    if args.schema:
        v.schema(args.schema)
    else:
        print("the schema is not compared: give --schema", file=sys.stderr)
    if args.checkpoint:
        with open(args.checkpoint, "rb") as lines:
            v.soundly("the checkpoints", v.checkpoints, lines, keys[0])
    for finding in sorted(v.findings):
        print(shown(finding))
    whole = all(finding.startswith("acknowledged ") for finding in v.findings)
    if whole:
        print(f"clean: {checks} checks and outcomes in {len({chain for chain, _ in v.heads})} chains")
    sys.exit(0 if whole else 1)


main()
