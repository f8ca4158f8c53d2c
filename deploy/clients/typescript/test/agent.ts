// A process that tests kill. It refunds orders with a provider that writes a ledger.
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

import { AlreadyExecuted, Gate, InDoubt, type Journal, Spendgate, SpendgateError } from "spendgate";
import { fileJournal } from "spendgate/journal";

export interface Task {
  baseUrl: string;
  apiKey: string;
  policyId: string;
  journal: string;
  ledger: string;
  orders: string[];
  /** The provider takes idempotency keys. */
  providerKey: boolean;
  /** Where the process kills itself: "before began", "after POST /v1/checks". */
  kill?: string;
}

const task = JSON.parse(process.argv[2] ?? "{}") as Task;

function at(point: string): void {
  if (point === task.kill) process.kill(process.pid, "SIGKILL");
}

async function around<R>(step: string, run: () => Promise<R>): Promise<R> {
  at(`before ${step}`);
  const value = await run();
  at(`after ${step}`);
  return value;
}

const journal = fileJournal(task.journal);
const killing: Journal = { ...journal, add: (key, step, line) => around(step, () => journal.add(key, step, line)) };

/** pay moves money: a line of the ledger is a payment. */
function pay(order: string, checkId: string): void {
  if (task.providerKey && readFileSync(task.ledger, "utf8").includes(checkId)) return;
  const file = openSync(task.ledger, "a");
  writeSync(file, `${order} ${checkId}\n`);
  fsyncSync(file);
  closeSync(file);
}

const client = new Spendgate({
  baseUrl: task.baseUrl,
  apiKey: task.apiKey,
  attempts: 10,
  fetch: (url, init) =>
    around(`${init?.method} ${new URL(String(url)).pathname.replace(/chk_\w+/, "{id}")}`, () => fetch(url as URL, init)),
});
const gate = new Gate({
  client,
  journal: killing,
  redeem: false,
  defaults: { agent_id: "bot", policy_id: task.policyId, action_type: "refund", currency: "USD" },
});
const refund = gate.guard<string, string>(
  { key: (order) => order, amount: "19.9", counterparty: (order) => order },
  async (order, { check_id }) => {
    await around("body", async () => pay(order, check_id));
    return `psp-${order}`;
  },
  { providerKey: task.providerKey, report: (reference) => ({ reference }) },
);

/** settle asks the provider about actions in doubt that nothing else resolves. */
async function settle(): Promise<void> {
  const { in_doubt } = await gate.resume();
  for (const { idempotency_key: order } of in_doubt) {
    const status = readFileSync(task.ledger, "utf8").includes(`${order} `) ? "executed" : "voided";
    console.log(`in doubt ${order} ${status}`);
    await gate.settle(order, { status });
  }
}

const settles = !task.kill && !task.providerKey;
if (settles) await settle();
for (const order of task.orders) {
  try {
    console.log(`done ${await refund(order)}`);
  } catch (problem) {
    if (!(problem instanceof SpendgateError)) throw problem;
    if (problem instanceof InDoubt && settles) await settle(); // an allow whose answer was lost
    else console.log(problem instanceof AlreadyExecuted ? `executed ${order}` : `${problem.name} ${order}`);
  }
}
await gate.resume();
