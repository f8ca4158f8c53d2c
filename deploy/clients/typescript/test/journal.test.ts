import assert from "node:assert/strict";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";

import { type Journal, memoryJournal } from "spendgate";
import { fileJournal } from "spendgate/journal";

import { temporary } from "./node.js";

const directory = temporary();
for (const [name, journal] of [
  ["in memory", memoryJournal()],
  ["of files", fileJournal(directory)],
] as [string, Journal][]) {
  it(`a journal ${name} takes each step of a key once`, async () => {
    const key = "a/../b\n";
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => journal.add(key, "asked", { key, action: String(i) })));
    assert.equal(all.filter(Boolean).length, 1);
    assert.equal((await journal.read(key)).asked?.action, String(all.indexOf(true)));
    assert.deepEqual(await journal.read("another"), {});
    assert.deepEqual(await journal.open(), []);
    await journal.add(key, "began", { key, check_id: "chk_1" });
    assert.deepEqual(await journal.open(), [key]);
    await journal.add(key, "ended", { key, check_id: "chk_1", report: { status: "executed" } });
    assert.deepEqual(await journal.open(), [key]);
    await journal.add(key, "closed", { key });
    assert.deepEqual(await journal.open(), []);
  });
}

it("what a crash left half written in a directory is nothing", async () => {
  writeFileSync(join(directory, "0000.tmp"), '{"key":');
  assert.deepEqual(await fileJournal(directory).open(), []);
  assert.equal(readdirSync(directory).filter((file) => file.endsWith(".tmp")).length, 1);
});

it("a disk that was not there at first is written to later", async () => {
  const path = join(directory, "later");
  writeFileSync(path, "");
  const journal = fileJournal(path);
  await assert.rejects(journal.add("k", "asked", { key: "k" }));
  rmSync(path);
  assert.equal(await journal.add("k", "asked", { key: "k" }), true);
});
