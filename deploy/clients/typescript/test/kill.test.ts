import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { Spendgate } from "spendgate";

import type { Task } from "./agent.js";
import { as, baseUrl, keyOf, refunds, skip, temporary, unique } from "./node.js";

const agentScript = fileURLToPath(new URL("agent.js", import.meta.url));

interface Ended {
  killed: boolean;
  out: string;
}

function start(task: Task): { child: ChildProcess; ended: Promise<Ended> } {
  let ended: (how: Ended) => void;
  let failed: (problem: Error) => void;
  const result = new Promise<Ended>((resolve, reject) => ([ended, failed] = [resolve, reject]));
  const child = execFile(process.execPath, [agentScript, JSON.stringify(task)], (problem, out, err) => {
    const killed = child.signalCode === "SIGKILL";
    if (problem && !killed) failed(new Error(`${problem.message}\n${out}${err}`));
    else ended({ killed, out });
  });
  return { child, ended: result };
}

const paid = (ledger: string) => readFileSync(ledger, "utf8").split("\n").filter(Boolean);

describe("kill -9 of an agent", { skip, concurrency: 2 }, () => {
  let common: Pick<Task, "baseUrl" | "apiKey" | "policyId">;
  let auditor: Spendgate;
  before(async () => {
    auditor = await as({ role: "auditor" });
    common = { baseUrl, apiKey: await keyOf({ role: "agent" }), policyId: await refunds(await as({ role: "author" })) };
  });

  // After the kill, with a provider without keys: whether it paid, and whether the action is in doubt.
  const points: [point: string, payments: number, inDoubt: boolean][] = [
    ["before asked", 0, false],
    ["after asked", 0, false],
    ["before POST /v1/checks", 0, false],
    ["after POST /v1/checks", 0, false],
    ["before began", 0, false],
    ["after began", 0, true],
    ["before body", 0, true],
    ["after body", 1, true],
    ["before ended", 1, true],
    ["after ended", 1, false],
    ["before POST /v1/checks/{id}/outcome", 1, false],
    ["after POST /v1/checks/{id}/outcome", 1, false],
    ["before closed", 1, false],
    ["after closed", 1, false],
  ];
  for (const [kill, payments, inDoubt] of points) {
    for (const providerKey of inDoubt ? [false, true] : [false]) { // without doubt the provider is not asked
      it(`${kill}, of a provider ${providerKey ? "with" : "without"} idempotency keys`, async () => {
        const directory = temporary();
        const order = unique();
        const task: Task = {
          ...common,
          journal: join(directory, "journal"),
          ledger: join(directory, "ledger"),
          orders: [order],
          providerKey,
        };
        writeFileSync(task.ledger, "");
        assert.equal((await start({ ...task, kill }).ended).killed, true);
        assert.equal(paid(task.ledger).length, payments);

        const { out } = await start(task).ended;
        const wasOver = payments === 1 && !(inDoubt && providerKey);
        if (inDoubt && !providerKey) assert.match(out, new RegExp(`^in doubt ${order} ${payments ? "executed" : "voided"}\n`));
        else assert.match(out, wasOver ? /^executed / : /^done /);
        assert.equal(paid(task.ledger).length, inDoubt && !providerKey ? payments : 1);

        // The record agrees, and a third process does nothing.
        const [check] = await auditor.checks({ counterparty: order }).all();
        assert.equal(check?.outcome?.status, paid(task.ledger).length ? "executed" : "voided");
        assert.match((await start(task).ended).out, paid(task.ledger).length ? /^executed / : /^AlreadyReported /);
        assert.ok(paid(task.ledger).length <= 1);
      });
    }
  }

  it("before its answer, and another journal has the same key", async () => {
    const [directory, order] = [temporary(), unique()];
    const task = { ...common, journal: join(directory, "first"), ledger: join(directory, "ledger"), orders: [order], providerKey: false };
    const other = { ...task, journal: join(directory, "second"), kill: "nowhere" }; // it does not settle doubts
    writeFileSync(task.ledger, "");
    assert.equal((await start({ ...task, kill: "after POST /v1/checks" }).ended).killed, true);
    assert.match((await start(other).ended).out, /^InDoubt /);
    assert.match((await start(task).ended).out, /^done /);
    assert.match((await start(other).ended).out, /^(executed|AlreadyReported) /);
    assert.equal(paid(task.ledger).length, 1);
  });
});

/** port returns a free port on loopback. */
async function port(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const binary = process.env["SPENDGATE_BINARY"];

it("200 actions, agent and node killed again and again", { skip: !binary && "SPENDGATE_BINARY names no program" }, async () => {
  const directory = temporary();
  const [api, ops] = [await port(), await port()];
  const environ = {
    SPENDGATE_LISTEN_ADDR: `127.0.0.1:${api}`,
    SPENDGATE_OPS_ADDR: `127.0.0.1:${ops}`,
    SPENDGATE_DATA_DIR: directory,
  };
  const startNode = () => spawn(binary ?? "", ["dev"], { env: environ, stdio: "ignore" });
  const own = `http://127.0.0.1:${api}`;
  const up = async () => {
    const client = new Spendgate({ baseUrl: own, attempts: 100, maxWait: 1_000 });
    await client.health();
  };
  let node = startNode();
  let killer: NodeJS.Timeout | undefined;
  try {
    await up();
    const adminKey = readFileSync(join(directory, "admin.key"), "utf8").trim();
    const admin = new Spendgate({ baseUrl: own, adminKey });
    const key = async (role: string) => (await admin.admin.createKey({ name: role, role, rate_limit_rpm: 10_000 })).api_key;
    const author = new Spendgate({ baseUrl: own, apiKey: await key("author") });
    const auditor = new Spendgate({ baseUrl: own, apiKey: await key("auditor"), attempts: 20 });
    const orders = Array.from({ length: 200 }, unique);
    const task: Task = {
      ...{ baseUrl: own, apiKey: await key("agent"), policyId: await refunds(author), orders, providerKey: false },
      ...{ journal: join(directory, "journal"), ledger: join(directory, "ledger") },
    };
    writeFileSync(task.ledger, "");
    killer = setInterval(() => {
      node.once("exit", () => (node = startNode()));
      node.kill("SIGKILL");
    }, 900);
    let kills = 0;
    for (let last = -1; paid(task.ledger).length !== last || kills < 10; kills++) {
      last = paid(task.ledger).length;
      const { child, ended } = start(task);
      const timer = setTimeout(() => child.kill("SIGKILL"), 250 + 400 * Math.random());
      const { killed } = await ended;
      clearTimeout(timer);
      if (!killed) break;
    }
    clearInterval(killer);
    await up();
    await start(task).ended; // finishes the rest
    const { out } = await start(task).ended;
    assert.equal(out.split("\n").filter((line) => /^(executed|AlreadyReported) /.test(line)).length, 200, out);

    // The provider's ledger equals the record.
    const ledger = paid(task.ledger);
    const executed = await auditor.checks({ outcome: "executed", limit: 100 }).all();
    assert.deepEqual(ledger.sort(), executed.map(({ action, check_id }) => `${action.counterparty} ${check_id}`).sort());
    assert.equal(new Set(ledger).size, ledger.length);
    assert.ok(ledger.length > 150, `${ledger.length} of 200 paid, ${kills} kills`);
  } finally {
    clearInterval(killer);
    node.removeAllListeners("exit");
    node.kill("SIGKILL");
  }
});
