// What the shared cases of the guards do not have: what is this language's own, and answers to other requests.
import assert from "node:assert/strict";
import { it } from "node:test";

import { BadKey, type CarryOptions, Gate, InDoubt, Spendgate } from "spendgate";

type Answer = [status: number, body: object];

/** serving returns a gate whose service answers a redemption with proceed and then as given, and the requests that it gets. */
function serving(...answers: Answer[]) {
  const sent: string[] = [];
  const client = new Spendgate({
    baseUrl: "http://service",
    fetch: async (url, init) => {
      const { redeem, payment_key } = JSON.parse(String(init?.body));
      const payment = { payment_key, state: "redeemed", proceed: true, nonce: redeem, outcome: null, execution_id: "exe_1", redemption_id: "rdm_1" };
      const proceed: Answer = [200, { check_id: "chk_1", decision: "allow", policy_version: 1, payment }];
      const [status, body] = (sent.length === 0 ? proceed : answers[sent.length - 1]) ?? assert.fail("one request more");
      sent.push(new URL(String(url)).pathname.replace("/v1/checks", ""));
      return new Response(JSON.stringify(body), { status });
    },
  });
  let pauses = 0;
  client.pause = async () => assert.ok(++pauses < 20, "it goes on without end");
  const pay = <R>(body: () => R, options?: CarryOptions<Awaited<R>>, key = "order-1", amount = "10", currency = "USD") =>
    gate.check({ payment_key: key, amount, currency, agent_id: "a", policy_id: "p", counterparty: "c" }, body as never, options as never);
  const onUnreported = () => {
    throw new Error("the log is full");
  };
  const gate = new Gate({ client, onUnreported });
  return { gate, pay, sent };
}
const reported = (check_id: string): Answer => [201, { check_id, status: "executed", release: "none" }];
const doubted: Answer = [201, { check_id: "chk_1", redemption_id: "rdm_1" }];
const contrary = (check_id: string, status: string): Answer => [
  409,
  { error: { code: "outcome_already_reported", message: "m", request_id: "r", latest: { check_id, status, report: 1 } } },
];

it("an answer to the report of another check is none, and the report is repeated", async () => {
  for (const answer of [reported("chk_2"), contrary("chk_2", "executed"), contrary("chk_2", "voided")]) {
    const { gate, pay, sent } = serving(answer, reported("chk_1"));
    assert.equal(await pay(() => "psp-1"), "psp-1");
    await gate.reported();
    assert.deepEqual(sent, ["", "/chk_1/outcome", "/chk_1/outcome"]);
  }
});

it("what nobody can know to have moved nothing is in doubt", async () => {
  const doubt = () => Promise.reject(new InDoubt("order-2", "chk_2", "another guard says so"));
  const lost = () => Promise.reject(new Error("lost"));
  for (const [body, options] of [
    [doubt, { failedOn: () => true }],
    [lost, { failedOn: async () => true }], // a promise does not count
    [lost, { failedOn: () => assert.fail("it does not know") }],
    [() => (async function* () {})(), {}],
    [() => new Error("caught"), {}],
    [() => "psp-1", { failedIf: () => assert.fail("it does not know") }],
    [() => "psp-1", { failedIf: async () => false }],
    [() => ({ content: "", status: "error" }), {}], // of LangChain
    [() => new Response("no money", { status: 402 }), {}],
  ] as [() => unknown, object][]) {
    const { pay, sent } = serving(doubted);
    await assert.rejects(pay(body, options), InDoubt);
    assert.deepEqual(sent, ["", "/chk_1/in-doubt"]);
  }
});

it("a permission that arrives after the machine slept runs nothing", async () => {
  const { pay, sent } = serving();
  const { now } = Date;
  Date.now = () => now() + (sent.length > 0 ? 700_000 : 0);
  try {
    await assert.rejects(
      pay(() => sent.push("it ran")),
      InDoubt,
    );
  } finally {
    Date.now = now;
  }
  assert.deepEqual(sent, [""]);
});

it("nothing is asked about what cannot be a payment", async () => {
  const { gate, pay, sent } = serving();
  const never = () => assert.fail("it ran");
  for (const key of ["", " ", "null", "order-undefined", "order:NaN", "order_None", "order-[object Object]"])
    await assert.rejects(pay(never, {}, key), BadKey);
  type Named = { id?: string; of?: { shop: string } };
  for (const [payment_key, input] of [
    [({ id }) => `n-${id}`, { id: "" }],
    [({ id }) => `n-${id}-refund`, { id: " " }],
    [({ id, of }) => `${encodeURIComponent(of!.shop)}/${id}`, { id: "7", of: { shop: "" } }],
  ] as [(input: Named) => string, Named][]) {
    const plan = { payment_key, amount: "10", currency: "USD", counterparty: "c" };
    await assert.rejects(gate.guard(plan, never)(input), BadKey);
  }
  for (const [amount, currency] of [["0.00", "USD"], ["1.005", "usd"], ["1.5", "JPY"], ["10.505", "HUF"]] as const)
    await assert.rejects(pay(never, {}, "order-1", amount, currency), RangeError);
  await assert.rejects(pay(never, { takeOver: true }), /TypeError: .*execution_id/);
  const plan = { payment_key: (order: string) => order, amount: "10", currency: "USD", counterparty: "c" };
  assert.throws(() => gate.guard(plan, never, { takeOver: true }), /TypeError: .*\(input, { execution_id }\)/);
  assert.throws(() => gate.guard(plan, async function* () {}), TypeError);
  await assert.rejects(gate.guard({ ...plan, metadata: () => ({ at: Math.random() }) }, never)("order-1"), /not the same twice/);
  assert.deepEqual(sent, []);
});

it("a blank text that is no part of the key may be", async () => {
  const { gate } = serving(reported("chk_1"));
  const payment_key = ({ ref, id }: { ref: string; id: string; note: string }) => `order-${ref || id}`;
  const plan = { payment_key, agent_id: "a", policy_id: "p", amount: "10", currency: "USD", counterparty: "c" };
  assert.equal(await gate.guard(plan, () => "psp-1")({ ref: "", id: "1", note: "" }), "psp-1");
});

it("a key with a word such as null is one", async () => {
  for (const key of ["refund-jean.null@example.com-7", "undefined-7", "refund-Null", "nonnull"])
    assert.equal(await serving(reported("chk_1")).pay(() => "psp-1", {}, key), "psp-1");
});
