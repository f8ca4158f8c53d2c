// What people see of a text, as the service has it. Run by ../browser_test.go.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { unseen } from "../assets/lib/visible.js";

test("what shows nothing is what the service says", () => {
  const cases = JSON.parse(readFileSync("../../audit/spend/testdata/visible.json", "utf8"));
  for (const { text, unseen: want } of cases) {
    const found = [...unseen(text)].map(([, c]) => `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
    assert.deepEqual(found, want, JSON.stringify(text));
  }
});
