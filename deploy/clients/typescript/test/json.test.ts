import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";

import { amount } from "spendgate";

const internal = "../../dist/json.js";
const { decode, encode } = (await import(internal)) as { decode(text: string): unknown; encode(value: unknown): string };

function random(depth: number): unknown {
  const kind = Math.floor(Math.random() * (depth > 0 ? 6 : 4));
  if (kind === 0) return [null, true, false][Math.floor(Math.random() * 3)];
  if (kind === 1) return (Math.random() - 0.5) * 10 ** Math.floor(Math.random() * 40 - 20);
  if (kind === 2) return Math.floor(Math.random() * 1e6);
  if (kind === 3)
    return Array.from({ length: 5 }, () => String.fromCharCode(Math.floor(Math.random() * 0x300))).join("") + '"\\\n';
  const members = Array.from({ length: 4 }, () => random(depth - 1));
  return kind === 4 ? members : Object.fromEntries(members.map((member, i) => [`${i}_`, member]));
}

it("JSON is read and written as JSON.parse and JSON.stringify do", () => {
  for (let i = 0; i < 3000; i++) {
    const value = random(4);
    for (const text of [JSON.stringify(value), JSON.stringify(value, null, 2)]) assert.deepEqual(decode(text), JSON.parse(text));
    assert.deepEqual(JSON.parse(encode(value)), JSON.parse(JSON.stringify(value)));
  }
});

it("what is not one JSON value is refused, as is a name that is twice in an object", () => {
  for (const text of [
    "",
    " ",
    "{",
    "}",
    "[1,]",
    "[1",
    '{"a":1,}',
    '{"a"}',
    "{a:1}",
    "01",
    "1.",
    "-",
    "+1",
    "nul",
    "1 2",
    '"\n"',
    '"\\x"',
    "\ufeff1",
    '{"a":1,"a":1}',
    "[".repeat(300),
  ]) {
    assert.throws(() => decode(text), SyntaxError, text);
  }
});

it("numbers are exact, and money is text", () => {
  const text =
    '{"amount":1.10,"limit":null,"metadata":{"amount":1.5},"n":[9007199254740993,0.1000,1e2],"used":12345678901234567890.5}';
  const read = decode(text) as { amount: string; limit: null; metadata: { amount: number }; n: unknown[]; used: string };
  assert.deepEqual([read.amount, read.limit, read.metadata.amount, read.used], ["1.10", null, 1.5, "12345678901234567890.5"]);
  assert.equal(encode(read.n), "[9007199254740993,0.1,100]");
  assert.deepEqual(decode('{"__proto__":1}'), JSON.parse('{"__proto__":1}'));
});

it("what would be sent as {}, or is no amount, is refused", () => {
  for (const value of [new Map([["risk", "high"]]), new Set([1]), Promise.resolve({ risk: "high" }), new Uint8Array(1)])
    assert.throws(() => encode({ metadata: { value } }), TypeError);
  const own = Object.assign(Object.create(null) as object, { risk: "high" });
  assert.equal(encode([own, new (class { risk = "high"; })(), new Date(0)]), '[{"risk":"high"},{"risk":"high"},"1970-01-01T00:00:00.000Z"]');
  for (const value of [["19.9"], { toString: () => "5" }, true, null, undefined, NaN, -1, 0.1 + 0.2, 1e21, 10n ** 18n, " 1", "+1", "1_0", "0x1"])
    assert.throws(() => amount(value as string), RangeError, String(value));
});

it("what browsers and edge runtimes load needs nothing of Node.js", () => {
  const seen = new Set<string>();
  const visit = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    const text = readFileSync(new URL(`../../dist/${file}`, import.meta.url), "utf8");
    for (const [, from = ""] of text.matchAll(/\bfrom "([^"]+)"/g)) {
      assert.ok(from.startsWith("./"), `${file} imports ${from}`);
      visit(from.slice(2));
    }
    assert.doesNotMatch(text.replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, ""), /\b(process\.|Buffer\.|require\()/, file);
  };
  visit("index.js");
  assert.ok(seen.size > 10);
});
