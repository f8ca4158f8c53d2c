import assert from "node:assert/strict";
import { it } from "node:test";

import { AlreadyExecuted, AlreadyReported, Gate, InDoubt, type Journal, type Permit, memoryJournal } from "spendgate";

import { action, allow, common, outcome, serving } from "./answers.js";

// Two processes share a journal, and one repeats a body while it runs in the other.

const never = (_: Permit) => assert.fail("it ran");

function latch(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

it("what another process repeats did not fail", async () => {
  for (const declinesFirst of [true, false]) {
    const journal = memoryJournal();
    const { client, sent } = serving([allow(), allow(), outcome]);
    const [began, repeated, leave] = [latch(), latch(), latch()];
    const slow = async (_: Permit) => {
      began.open();
      await leave.opened;
      throw new Error("it was not sent");
    };
    const options = { providerKey: true, declined: () => true };
    const first = new Gate({ client, journal, redeem: false }).check(action(), slow, options).catch((problem: unknown) => problem);
    await began.opened;
    const other = new Gate({ client, journal, redeem: false });
    const second = other.check(action(), async (_) => {
      repeated.open();
      if (!declinesFirst) return;
      leave.open();
      await first;
    }, options);
    await repeated.opened;
    if (!declinesFirst) await second;
    leave.open();
    const problem = await first;
    assert.ok(problem instanceof InDoubt && /another process/.test(problem.message), String(problem));
    await second;
    assert.equal(sent.length, 3);
    assert.match(sent[2] ?? "", /"executed"/);
    assert.deepEqual((await other.resume()).in_doubt, []);
  }
});

it("what nobody repeats failed, and is over if its process dies right then", async () => {
  const journal = memoryJournal();
  const declining = (_: Permit) => Promise.reject(new Error("declined"));
  const options = { providerKey: true, declined: () => true };
  const dying: Journal = {
    ...journal,
    add: async (key, step, line) => (step === "ended" ? new Promise(() => undefined) : journal.add(key, step, line)),
  };
  const { client, sent } = serving([allow(), outcome, allow("chk_1", { Outcome: "failed" })]);
  void new Gate({ client, journal: dying, redeem: false }).check(action(), declining, options);
  for (let i = 0; !(await journal.read("order-1")).repeated; i++) {
    assert.ok(i < 1000);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const next = new Gate({ client, journal, redeem: false });
  await assert.rejects(next.check(action(), never, options), AlreadyReported);
  assert.match(sent[1] ?? "", /"failed"/);

  const whole = serving([allow(), outcome]);
  const gate = new Gate({ client: whole.client, journal: memoryJournal(), redeem: false });
  await assert.rejects(gate.check(action(), declining, options), /^Error: declined/);
  assert.deepEqual(await gate.resume(), { reported: [], unreported: [], in_doubt: [] });
});

it("what another process has carried out meanwhile is over, and not in doubt", async () => {
  const journal = memoryJournal();
  const late: Journal = {
    ...journal,
    add: async (key, step, line) => {
      if (step === "began") {
        await journal.add(key, step, line);
        await journal.add(key, "ended", { ...line, report: { status: "executed", reference: "psp-1" } });
      }
      return journal.add(key, step, line);
    },
  };
  const { client, sent } = serving([allow(), outcome]);
  const problem = await new Gate({ client, journal: late, redeem: false }).check(action(), never).catch((problem: unknown) => problem);
  assert.ok(problem instanceof AlreadyExecuted && problem.outcome?.reference === "psp-1", String(problem));
  assert.equal(sent.length, 2);
});

it("a function of the plan that fails right before the body leaves nothing in doubt", async () => {
  for (const providerKey of [false, true]) {
    let fails = false;
    const journal = memoryJournal();
    const late: Journal = {
      ...journal,
      add: async (key, step, line) => {
        fails ||= step === "began";
        return journal.add(key, step, line);
      },
    };
    const { client, sent } = serving(providerKey ? [allow(), allow(), outcome] : [allow(), outcome, allow("chk_1", { Outcome: "voided" })]);
    const counterparty = () => {
      if (fails) throw new Error("no customer now");
      return "c";
    };
    const gate = new Gate({ client, journal: late, redeem: false });
    const plan = { ...(common as object), key: () => "order-1", counterparty };
    const refund = gate.guard<unknown, string>(plan, (_, __) => "psp-1", { providerKey });
    await assert.rejects(refund({}), /^Error: no customer now/);
    fails = false;
    if (providerKey) assert.equal(await refund({}), "psp-1");
    else await assert.rejects(refund({}), AlreadyReported);
    assert.match(sent.at(providerKey ? -1 : 1) ?? "", providerKey ? /"executed"/ : /"voided"/);
    assert.deepEqual((await gate.resume()).in_doubt, []);
  }
});
