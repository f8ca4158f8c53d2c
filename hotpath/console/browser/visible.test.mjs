// What people see of a text, as the service has it. Run by ../browser_test.go.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { mixed, unseen } from "../assets/lib/visible.js";
import { inCurrency } from "../assets/lib/words.js";

test("what shows nothing is what the service says", () => {
  const cases = JSON.parse(readFileSync("../../audit/spend/testdata/visible.json", "utf8"));
  for (const { text, unseen: want } of cases) {
    const found = [...unseen(text)].map(([, c]) => `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
    assert.deepEqual(found, want, JSON.stringify(text));
  }
});

test("a name that mixes alphabets is told", () => {
  for (const [name, alphabets] of [
    ["Acme GmbH", []],
    ["\u0410\u0441\u043c\u0435", []], // all Cyrillic
    ["\u0410cme", ["Latin", "Cyrillic"]], // its first letter is Cyrillic
    ["Pay\u03a1al", ["Latin", "Greek"]],
    ["\u6771\u4eac Tower \u30bf\u30ef\u30fc", []], // as Japanese is written
    ["5 \u00b5m, caf\u00e9", []],
  ])
    assert.deepEqual(mixed(name), alphabets, name);
});

test("an amount has the digits of its currency in ISO 4217", () => {
  for (const [amount, currency, want] of [
    ["5000", "JPY", "5000"],
    ["10.5", "HUF", "10.50"],
    ["7", "IQD", "7.000"],
    ["1.25", "CLF", "1.2500"],
    ["19.9", "eur", "19.90"],
    ["0.001", "EUR", "0.001"],
    ["3", "XYZ", "3.00"],
    ["3", null, "3"],
  ])
    assert.equal(inCurrency(amount, currency), want, currency);
});
