import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";

import {
  AlreadyExecuted,
  AlreadyReported,
  APIError,
  BadKey,
  Gate,
  InDoubt,
  type Journal,
  type Permit,
  KeyReused,
  memoryJournal,
  orRefusal,
} from "spendgate";
import { fileJournal } from "spendgate/journal";

import { action, allow, bodies, common, failed, outcome, replay, serving } from "./answers.js";
import { temporary } from "./node.js";

// What a gate remembers of the service's answers and of payments.

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
  assert.equal(await gate.pending({ ...action(), idempotency_key: `${{}}` }), undefined); // the call itself says why
  await assert.rejects(gate.check({ ...action(), idempotency_key: 5 as unknown as string }, never), /names no action/);
  assert.deepEqual(sent, []);
});

it("a check without a body is not asked for", async () => {
  const { client, sent } = serving([]);
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
  await assert.rejects((gate.check as (action: unknown) => Promise<unknown>).call(gate, action()), /give it a function/);
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

it("an action that is another one each time is not asked for", async () => {
  const { client, sent } = serving([]);
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
  for (const member of ["key", "counterparty"]) {
    const plan = { ...(common as object), key: () => "order-1", [member]: () => crypto.randomUUID() };
    await assert.rejects(gate.guard<unknown, unknown>(plan, never)({}), /same twice/);
  }
  assert.deepEqual(sent, []);
});

it("a function of the plan that fails later is no change: the next call goes on", async () => {
  const redemption = { body: bodies["redemption"] };
  for (const redeem of [false, true]) {
    let fails = false;
    const last = redeem ? [redemption] : [];
    const answers = [allow(), ...last, allow("chk_1", { "Idempotent-Replayed": "true" }), ...last, outcome];
    const { client, sent } = serving(answers, () => (fails = sent.length <= last.length + 1));
    const gate = new Gate({ client, journal: memoryJournal(), redeem });
    const counterparty = () => {
      if (fails) throw new Error("no customer now");
      return "c";
    };
    const refund = gate.guard<unknown, string>({ ...(common as object), key: () => "order-1", counterparty }, () => "psp-1");
    await assert.rejects(refund({}), /^Error: no customer now/);
    fails = false;
    assert.equal(await refund({}), "psp-1");
    assert.equal(sent.length, answers.length);
  }
});

it("a function of the plan that fails before its action is repeated leaves it in doubt", async () => {
  let fails = false;
  const { client, sent } = serving([allow(), allow()], () => (fails = sent.length === 2));
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
  const counterparty = () => {
    if (fails) throw new Error("no customer now");
    return "c";
  };
  const lost = (_: unknown, __: Permit) => {
    throw new Error("lost");
  };
  const refund = gate.guard<unknown, never>({ ...(common as object), key: () => "order-1", counterparty }, lost, { providerKey: true });
  await assert.rejects(refund({}), InDoubt);
  await assert.rejects(refund({}), (problem) => problem instanceof InDoubt && /begun before/.test(problem.message));
  assert.equal(sent.length, 2);
});

it("no new attempt is proposed while the service cannot say whether a failure was corrected", async () => {
  const said = (status: string) => allow("chk_1", { Outcome: status });
  const { client } = serving([said("failed"), failed, said("failed"), said("executed"), said("nonsense")]);
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
  const seen = async (error: new (...args: never[]) => Error, isNew: boolean) =>
    assert.rejects(gate.check(action(), never), (problem: unknown) => {
      assert.ok(problem instanceof error, String(problem));
      assert.equal(/nother idempotency key/.test(problem.message), isNew, problem.message);
      return true;
    });
  await seen(AlreadyReported, true);
  await seen(AlreadyReported, false);
  await seen(AlreadyReported, true);
  await seen(AlreadyExecuted, true);
  await seen(AlreadyReported, false);
});

it("a key with a word such as null is one, and one that ends in it is none unless the journal has it", async () => {
  for (const key of ["refund-jean.null@example.com-7", "undefined-7", "refund-Null", "nonnull"]) {
    const { client } = serving([allow(), outcome]);
    const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
    assert.equal(await gate.check({ ...action(), idempotency_key: key }, () => 1), 1, key);
  }
  const { client, sent } = serving([]);
  const journal = memoryJournal();
  const gate = new Gate({ client, journal, redeem: false });
  for (const key of ["null", "order-undefined", "order:NaN", "order_None", "order-null"])
    await assert.rejects(gate.check({ ...action(), idempotency_key: key }, never), BadKey);
  await assert.doesNotReject(orRefusal(gate.check({ ...action(), idempotency_key: "order-null" }, never)));
  await journal.add("order-null", "asked", { key: "order-null", action: "other" });
  await assert.rejects(gate.check({ ...action(), idempotency_key: "order-null" }, never), KeyReused);
  assert.deepEqual(sent, []);
});

it("clocks that went back repeat nothing without a provider's key", async () => {
  const memory = memoryJournal();
  const ahead = new Date(Date.now() + 3_600_000).toISOString();
  const journal: Journal = { ...memory, add: (key, step, line) => memory.add(key, step, step === "began" ? { ...line, at: ahead } : line) };
  const early = allow("chk_1", { Date: "Fri, 02 Jan 2026 03:04:05 GMT" }); // the check's time is half a second later
  const { client, sent } = serving([allow(), early, early]);
  const gate = new Gate({ client, journal, redeem: false });
  await assert.rejects(gate.check(action(), () => Promise.reject(new Error("lost"))), InDoubt);
  await assert.rejects(gate.check(action(), never), InDoubt);
  assert.equal((await gate.resume()).in_doubt.length, 1);
  assert.equal(sent.length, 3);
});
