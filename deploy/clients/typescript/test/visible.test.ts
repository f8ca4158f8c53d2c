// What people see of a text, as the service has it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { APIError } from "spendgate";

const file = process.env["SPENDGATE_VISIBLE"] ?? "../../../audit/spend/testdata/visible.json";
const cases = JSON.parse(readFileSync(file, "utf8")) as { text: string; unseen: string[] }[];
const shown = (text: string) => new APIError({ status: 400, code: "x", message: text, requestId: "r", retryAfter: 0 }).message;

it("shows in an error what nobody would see", () => {
  assert.ok(cases.length > 50);
  for (const { text, unseen } of cases) {
    if (unseen.length === 0) assert.equal(shown(text), `x: ${text} (400, r)`);
    for (const one of unseen) {
      const c = String.fromCodePoint(parseInt(one.slice(2), 16));
      assert.ok(!shown(text).includes(c), JSON.stringify(text));
    }
  }
  assert.equal(shown('say "hi" \\ Zo\u00eb'), 'x: say "hi" \\ Zo\u00eb (400, r)');
  assert.equal(shown('a\ufe0f"\\\u001b[2J\u{e0041}\n'), 'x: "a\\ufe0f\\"\\\\\\u001b[2J\\udb40\\udc41\\u000a" (400, r)');
});
