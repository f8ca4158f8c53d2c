import assert from "node:assert/strict";
import { before, describe, it } from "node:test";

import {
  BadKey,
  Gate,
  type Guarded,
  InDoubt,
  type Journal,
  type Permit,
  Running,
  type Spendgate,
  SpendgateError,
  memoryJournal,
} from "spendgate";
import { fileJournal } from "spendgate/journal";

import { as, refunds, skip, temporary, unique } from "./node.js";

describe("a guard", { skip, concurrency: true }, () => {
  let author: Spendgate;
  let agent: Spendgate;
  let policyId: string;

  before(async () => {
    [author, agent] = await Promise.all([as({ role: "author" }), as({ role: "agent" })]);
    policyId = await refunds(author);
  });

  function refunding(
    journal: Journal,
    ledger: string[],
    { amount = "10", policy_id = policyId } = {},
  ): { gate: Gate; refund: Guarded<string, string> } {
    const gate = new Gate({
      client: agent,
      journal,
      defaults: { agent_id: "bot", policy_id, currency: "USD", action_type: "refund" },
    });
    const refund = gate.guard<string, string>(
      { key: (order) => order, amount, counterparty: (order) => order },
      async (order, { check_id }) => {
        ledger.push(check_id);
        await new Promise((resolve) => setTimeout(resolve, 20));
        return order;
      },
    );
    return { gate, refund };
  }

  it("runs once, whoever else has the journal and the key", async () => {
    const directory = temporary();
    const ledger: string[] = [];
    const order = unique();
    const gates = Array.from({ length: 10 }, () => refunding(fileJournal(directory), ledger));
    const ends = await Promise.allSettled(gates.flatMap(({ refund }) => [refund(order), refund(order)]));
    for (const end of ends) if (end.status === "rejected") assert.ok(end.reason instanceof SpendgateError, String(end.reason));
    assert.equal(ends.filter(({ status }) => status === "fulfilled").length, ledger.length);
    assert.equal(ledger.length, 1);
  });

  it("repeats what is in doubt with a provider that takes a key, not beside itself", async () => {
    let running = 0;
    const gate = new Gate({
      client: agent,
      journal: memoryJournal(),
      defaults: { agent_id: "bot", policy_id: policyId, currency: "USD", action_type: "refund" },
    });
    const order = unique();
    const body = async (_: Permit) => {
      assert.equal(++running, 1);
      await new Promise((resolve) => setTimeout(resolve, 100));
      running--;
      throw new Error("nobody knows");
    };
    for (let i = 0; i < 2; i++) {
      const calls = Array.from({ length: 3 }, () =>
        gate.check({ idempotency_key: order, amount: 10, counterparty: order }, body, { providerKey: true }),
      );
      const reasons = (await Promise.allSettled(calls)).map((end) => end.status === "rejected" && end.reason);
      for (const reason of reasons) assert.ok(reason instanceof InDoubt);
      const beside = reasons.filter((reason) => reason instanceof Running);
      assert.equal(beside.length, 2);
      for (const { message } of beside) assert.match(message, /being carried out now: call again when that has ended; report nothing/);
    }
    assert.equal(running, 0);
  });

  it("does not repeat what the provider may have forgotten", async () => {
    const journal = memoryJournal();
    const yesterday = new Date(Date.now() - 25 * 3_600_000).toISOString();
    const old: Journal = { ...journal, add: (key, step, line) => journal.add(key, step, { ...line, at: yesterday }) };
    const gate = new Gate({
      client: agent,
      journal: old,
      defaults: { agent_id: "bot", policy_id: policyId, currency: "USD", action_type: "refund" },
    });
    const action = { idempotency_key: unique(), amount: 10, counterparty: unique() };
    const raise = (_: Permit) => Promise.reject(new Error("nobody knows"));
    await assert.rejects(gate.check(action, raise, { providerKey: true }), InDoubt);
    await assert.rejects(
      gate.check(action, async (_) => assert.fail("it ran"), { providerKey: true }),
      InDoubt,
    );
    assert.equal(await gate.check(action, async (_) => "once", { providerKey: true, providerKeyHours: 48 }), "once");
  });

  it("keeps in doubt what somebody else may have done", async () => {
    const ledger: string[] = [];
    const order = unique();
    await refunding(memoryJournal(), ledger).gate.pending({ idempotency_key: order, amount: "10", counterparty: order });
    const { gate, refund } = refunding(memoryJournal(), ledger);
    for (let i = 0; i < 2; i++) await assert.rejects(refund(order), InDoubt);
    const { in_doubt } = await gate.resume();
    assert.equal(in_doubt[0]?.idempotency_key, order);
    await gate.settle(order, { status: "voided" });
    assert.deepEqual((await gate.resume()).in_doubt, []);
    await assert.rejects(refund(order), /its outcome is voided/);
    assert.deepEqual(ledger, []);
  });

  it("carries out what it was allowed when it only asked, and nothing of another journal", async () => {
    const ledger: string[] = [];
    const order = unique();
    const journal = memoryJournal();
    const { gate, refund } = refunding(journal, ledger);
    const action = { idempotency_key: order, amount: "10", counterparty: order };
    assert.equal(await gate.pending(action), undefined);
    await assert.rejects(refunding(memoryJournal(), ledger).refund(order), InDoubt);
    assert.equal(await refund(order), order);
    assert.equal(ledger.length, 1);
  });

  it("repeats what a process died with between the allow and the begin, also after somebody only asked again", async () => {
    const journal = memoryJournal();
    const dying: Journal = {
      ...journal,
      add: async (key, at, line) => (at === "began" ? Promise.reject(new Error("killed")) : journal.add(key, at, line)),
    };
    const plan = { key: (order: string) => order, amount: "10", counterparty: (order: string) => order };
    const guarded = (to: Journal) => refunding(to, []).gate.guard<string, string>(plan, (order, _) => order, { providerKey: true });
    const order = unique();
    await assert.rejects(guarded(dying)(order), /killed/);
    assert.equal(await guarded(journal).pending(order), undefined);
    assert.equal(await guarded(journal)(order), order);
  });

  it("goes by the role of the key without a journal", async () => {
    const client = await as({ role: "gateway", principal: unique() });
    const gates = [0, 1].map(() => new Gate({ client, defaults: { agent_id: "bot", policy_id: policyId, currency: "USD" } }));
    const order = unique();
    const ends = await Promise.allSettled(
      gates.map((gate) => gate.check({ idempotency_key: order, action_type: "refund", amount: 10, counterparty: order }, () => 1)),
    );
    assert.deepEqual(ends.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
  });

  it("repeats no body that does not take the provider's key", async () => {
    const ledger: string[] = [];
    const { gate } = refunding(memoryJournal(), []);
    const plan = { key: (order: string) => order, amount: "10", counterparty: "c" };
    const pay = (order: string) => ledger.push(order);
    assert.throws(() => gate.guard(plan, pay, { providerKey: true }), /TypeError: .*check_id.*\(input, { check_id }\) => /);
    const action = { idempotency_key: unique(), amount: "10", counterparty: "c" };
    await assert.rejects(gate.check(action, () => pay("1"), { providerKey: true }), /TypeError: .* \({ check_id }\) => /);
    assert.deepEqual(ledger, []);
  });

  it("does not know the end of what runs after it returned, or was only said to be declined by a promise", async () => {
    const { gate } = refunding(memoryJournal(), []);
    async function* later() {}
    const throwing = () => Promise.reject(new Error("nobody knows"));
    const action = () => ({ idempotency_key: unique(), amount: "10", counterparty: unique() });
    await assert.rejects(gate.check(action(), () => later()), InDoubt);
    const declined = (async () => false) as unknown as () => boolean;
    await assert.rejects(gate.check(action(), throwing, { declined }), InDoubt);
  });

  it("runs nothing that the journal does not take, and reports what ended all the same", async () => {
    for (const [step, runs] of [
      ["asked", 0],
      ["began", 0],
      ["ended", 1],
      ["closed", 1],
    ] as const) {
      const journal = memoryJournal();
      const full: Journal = {
        ...journal,
        add: async (key, at, line) => (at === step ? Promise.reject(new Error("the disk is full")) : journal.add(key, at, line)),
      };
      const ledger: string[] = [];
      const order = unique();
      const refund = refunding(full, ledger).refund(order);
      if (runs) assert.equal(await refund, order);
      else await assert.rejects(refund, /the disk is full/);
      assert.equal(ledger.length, runs, step);
      if (runs) assert.equal((await agent.getOutcome(ledger[0] as string)).status, "executed");
    }
  });

  it("says that it is in doubt when neither the journal nor the service takes the end", async () => {
    const journal = memoryJournal();
    const full: Journal = {
      ...journal,
      add: async (key, at, line) => (at === "ended" ? Promise.reject(new Error("the disk is full")) : journal.add(key, at, line)),
    };
    const client = await as({ role: "agent" });
    client.reportOutcome = () => Promise.reject(new Error("nobody answers"));
    const gate = new Gate({
      client,
      journal: full,
      defaults: { agent_id: "bot", policy_id: policyId, currency: "USD", action_type: "refund" },
    });
    const order = unique();
    await assert.rejects(
      gate.check({ idempotency_key: order, amount: 10, counterparty: order }, async () => "psp-1"),
      InDoubt,
    );
  });

  it("reports a bigint as a text", async () => {
    const { gate } = refunding(memoryJournal(), []);
    const order = unique();
    const report = () => ({ reference: 5n as unknown as string });
    const checkId = await gate.check({ idempotency_key: order, amount: 10, counterparty: order }, ({ check_id }) => check_id, { report });
    assert.equal((await agent.getOutcome(checkId)).reference, "5");
  });

  it("needs a journal, a key, and a body that ends when it returns", async () => {
    assert.throws(
      () => new Gate({ client: agent, journal: memoryJournal() }).guard({ key: String }, async function* () {}),
      TypeError,
    );
    assert.throws(() => new Gate({ client: agent, redeem: false }), TypeError);
    const gate = new Gate({ client: agent });
    await assert.rejects(gate.resume(), TypeError);
    const action = { idempotency_key: unique(), agent_id: "bot", policy_id: policyId, amount: 10, currency: "USD", counterparty: "c" };
    await assert.rejects(
      gate.check(action, () => assert.fail("it ran")),
      TypeError,
    );
    assert.deepEqual(await author.checks({ idempotency_key: action.idempotency_key }).all(), []);
    await assert.rejects(refunding(memoryJournal(), []).refund(" "), BadKey);
  });

  it("refuses amounts that nobody can pay, before it asks, and says why a check was blocked", async () => {
    for (const [amount, currency, fault] of [
      ["0.00", "USD", /is 0/],
      ["1.005", "usd", /2 decimal digits/],
      ["1.5", "JPY", /0 decimal digits/],
      ["10.505", "HUF", /2 decimal digits/],
    ] as const) {
      const gate = new Gate({ client: agent, defaults: { agent_id: "bot", policy_id: policyId, currency, action_type: "refund" } });
      const refund = gate.guard<string, never>({ key: (order) => order, amount, counterparty: "c" }, () => assert.fail("it ran"));
      await assert.rejects(refund(unique()), (problem) => problem instanceof RangeError && fault.test(problem.message));
    }
    const { refund } = refunding(memoryJournal(), [], { amount: "501" });
    await assert.rejects(refund(unique()), /500/);
  });
});
