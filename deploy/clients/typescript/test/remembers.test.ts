import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";

import {
  AlreadyExecuted,
  APIError,
  Gate,
  type GuardedAction,
  InDoubt,
  type Journal,
  KeyReused,
  Spendgate,
  memoryJournal,
  orRefusal,
} from "spendgate";
import { fileJournal } from "spendgate/journal";

import { temporary } from "./node.js";
import type { Members } from "./scripted.js";

// What a gate remembers, of what it was told and of what is paid.

const { bodies, action: common } = JSON.parse(readFileSync(process.env["SPENDGATE_CASES"] ?? "../cases.json", "utf8")) as {
  bodies: Record<string, Members>;
  action: Members;
};
const action = () => ({ ...common, idempotency_key: "order-1" }) as unknown as GuardedAction;

interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body: unknown;
}
const allow = (checkId = "chk_1", headers = {}): Answer => ({ body: { ...bodies["allow"], check_id: checkId }, headers });
const outcome: Answer = { status: 201, body: bodies["outcome"] };
const failed: Answer = { status: 500, body: { error: { code: "internal_error", message: "the store does not answer", request_id: "r" } } };
const replay = (headers = {}) => allow("chk_1", { "Idempotent-Replayed": "true", "First-Request": "other", ...headers });

/** serving returns a client that is given the answers, and what it sent. */
function serving(answers: Answer[], meanwhile: () => void = () => undefined): { client: Spendgate; sent: string[] } {
  const sent: string[] = [];
  const client = new Spendgate({
    baseUrl: "http://service",
    apiKey: "key",
    attempts: 1,
    fetch: async (url, init) => {
      const { body, status = 200, headers = {} } = answers[sent.length] ?? assert.fail(`one request more: ${String(url)}`);
      sent.push(`${init?.method} ${new URL(String(url)).pathname} ${String(init?.body ?? "")}`);
      meanwhile();
      return new Response(JSON.stringify(body), { status, headers });
    },
  });
  return { client, sent };
}

const never = () => assert.fail("it ran");

it("without a journal, the key has a principal", async () => {
  const redemption = { body: bodies["redemption"] };
  for (const redeem of [undefined, true]) {
    const options = redeem === undefined ? {} : { redeem };
    const nobody = serving([{ body: bodies["key"] }, { body: bodies["key"] }]);
    const gate = new Gate({ client: nobody.client, ...options });
    await assert.rejects(gate.check(action(), never), /principal/);
    await assert.rejects(gate.resume(), /principal/);
    assert.equal(nobody.sent.length, 1);
    const { client, sent } = serving([{ body: { ...bodies["key"], principal: "refunds" } }, allow(), redemption, outcome]);
    assert.equal(await new Gate({ client, ...options }).check(action(), () => 1), 1);
    assert.equal(sent.length, 4);
  }
});

it("what changes after it was allowed is not carried out", async () => {
  const order = { id: "7", total: "5", customer: "c" };
  const { client, sent } = serving([allow(), outcome], () => Object.assign(order, { total: "5000", customer: "mallory" }));
  const defaults = { agent_id: "a", policy_id: "p", currency: "USD" };
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false, defaults });
  const plan = {
    key: (of: typeof order) => `refund-${of.id}`,
    amount: (of: typeof order) => of.total,
    counterparty: (of: typeof order) => of.customer,
  };
  await assert.rejects(gate.guard(plan, never)(order), KeyReused);
  assert.match(sent[1] ?? "", /^POST \/v1\/checks\/chk_1\/outcome .*"voided"/);

  const asked = { ...action(), metadata: { to: "c" } };
  const second = serving([allow(), outcome], () => (asked.metadata.to = "mallory"));
  await assert.rejects(new Gate({ client: second.client, journal: memoryJournal(), redeem: false }).check(asked, never), /changed/);
});

it("the text of an object, or of nothing, is no key", async () => {
  const { client, sent } = serving([]);
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
  const refund = gate.guard<unknown, unknown>({ ...(common as object), key: (order) => `refund-${order as string}` }, never);
  for (const order of [{}, undefined, null, NaN, Promise.resolve(), [{}]])
    await assert.rejects(refund(order), /names no action/);
  await assert.rejects(gate.pending({ ...action(), idempotency_key: `${{}}` }), /names no action/);
  await assert.rejects(gate.check({ ...action(), idempotency_key: 5 as unknown as string }, never), /names no action/);
  assert.deepEqual(sent, []);
});

it("what another process is told between the answer and the beginning is heeded", async () => {
  for (const [step, error] of [
    ["doubted", InDoubt],
    ["closed", AlreadyExecuted],
  ] as const) {
    const journal = memoryJournal();
    const tell = () => journal.add("order-1", step, { key: "order-1", check_id: "chk_1", report: { status: "executed" } });
    const { client, sent } = serving([allow("chk_2"), outcome], () => void tell());
    const problem = await new Gate({ client, journal, redeem: false }).check(action(), never).catch((problem: unknown) => problem);
    assert.ok(problem instanceof error && problem.checkId === "chk_1", String(problem));
    assert.match(sent[1] ?? "", /^POST \/v1\/checks\/chk_2\/outcome .*"voided"/);
  }
});

it("who is told that it is over is told so by a journal that is full, too", async () => {
  const journal = memoryJournal();
  const full: Journal = {
    ...journal,
    add: async (key, step, line) => (step === "closed" ? Promise.reject(new Error("the disk is full")) : journal.add(key, step, line)),
  };
  const { client } = serving([replay({ Outcome: "executed" })]);
  await assert.rejects(new Gate({ client, journal: full, redeem: false }).check(action(), never), AlreadyExecuted);
});

it("pending writes down what is over, and doubts nothing", async () => {
  const journal = memoryJournal();
  const { client } = serving([replay({ Redeemed: "rdm_1" }), replay({ Outcome: "executed" })]);
  const gate = new Gate({ client, journal, redeem: false });
  assert.equal(await gate.pending(action()), undefined);
  assert.deepEqual(await journal.open(), []);
  assert.equal(await gate.pending(action()), undefined);
  await assert.rejects(gate.check(action(), never), AlreadyExecuted);
});

it("what may have been carried out is in doubt while the service cannot say", async () => {
  const journal = memoryJournal();
  const raise = () => Promise.reject(new Error("lost"));
  const { client } = serving([allow(), failed, failed]);
  const gate = new Gate({ client, journal, redeem: false });
  await assert.rejects(gate.check(action(), raise), InDoubt);
  const refusal = await orRefusal(gate.check(action(), never));
  assert.equal((refusal as { state: string }).state, "in_doubt");
  assert.match((refusal as { message: string }).message, /may have been carried out under chk_1/);
  await assert.rejects(gate.resume(), APIError);
});

it("what a guard in the body has in doubt is not declined", async () => {
  const { client, sent } = serving([allow()]);
  const inner = () => Promise.reject(new InDoubt("order-2", "chk_9", "nobody knows"));
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
  await assert.rejects(gate.check(action(), inner, { declined: () => true }), (problem: InDoubt) => problem.checkId === "chk_1");
  assert.equal(sent.length, 1);
});

it("a journal of files stays where it was made", async () => {
  const before = process.cwd();
  process.chdir(temporary());
  try {
    const journal = fileJournal(join("a", "b"));
    await journal.add("k", "asked", { key: "k" });
    process.chdir(temporary());
    assert.deepEqual(await journal.read("k"), { asked: { key: "k" } });
  } finally {
    process.chdir(before);
  }
});
