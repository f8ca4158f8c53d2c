import assert from "node:assert/strict";
import { before, describe, it } from "node:test";

import {
  APIError,
  Blocked,
  Denied,
  ExactNumber,
  Gate,
  NoDecision,
  Spendgate,
  amount,
  compareAmounts,
  minorUnits,
  type Action,
} from "spendgate";

import { admin, as, baseUrl, refunds, skip, unique } from "./node.js";

// Every operation of the service, through the client.
const operations: Record<string, string> = {
  createCheck: "check",
  listChecks: "checks",
  getCheck: "getCheck",
  getOutcome: "getOutcome",
  reportOutcome: "reportOutcome",
  redeemCheck: "redeem",
  reportInDoubt: "reportInDoubt",
  simulate: "simulate",
  putDraft: "putDraft",
  getDraft: "draft",
  deleteDraft: "deleteDraft",
  getDraftReport: "draftReport",
  approveDraft: "approveDraft",
  rejectDraft: "rejectDraft",
  promoteDraft: "promoteDraft",
  getStats: "stats",
  getSums: "sums",
  createFreeze: "createFreeze",
  getFreeze: "freeze",
  listFreezes: "freezes",
  releaseFreeze: "releaseFreeze",
  createGrant: "createGrant",
  getGrant: "grant",
  listGrants: "grants",
  approveGrant: "approveGrant",
  revokeGrant: "revokeGrant",
  createBacktest: "createBacktest",
  listBacktests: "backtests",
  getBacktest: "backtest",
  listFlips: "flips",
  cancelBacktest: "cancelBacktest",
  listPolicies: "policies",
  createPolicy: "createPolicy",
  getPolicy: "policy",
  listPolicyVersions: "policyVersions",
  listApprovals: "approvals",
  getApproval: "approval",
  approve: "approve",
  deny: "deny",
  listBudgets: "budgets",
  listEvents: "events",
  listViolations: "violations",
  getOwnKey: "self",
  getHealth: "health",
  listKeys: "admin.keys",
  createKey: "admin.createKey",
  updateKey: "admin.updateKey",
  listSessions: "admin.sessions",
  endSession: "admin.endSession",
  listWebhooks: "admin.webhooks",
  createWebhook: "admin.createWebhook",
  getWebhook: "admin.webhook",
  updateWebhook: "admin.updateWebhook",
  deleteWebhook: "admin.deleteWebhook",
  rotateWebhook: "admin.rotateWebhook",
  retryWebhook: "admin.retryWebhook",
  listDeliveries: "admin.deliveries",
  replayDelivery: "admin.replayDelivery",
};
const documents = ["getOpenAPI", "getOpenAPIJSON"];

describe("a node", { skip, concurrency: true }, () => {
  let author: Spendgate;
  let agent: Spendgate;
  let policyId: string;
  let action: () => Action & { idempotency_key: string };

  before(async () => {
    [author, agent] = await Promise.all([as({ role: "author" }), as({ role: "agent" })]);
    policyId = await refunds(author);
    action = () => ({
      agent_id: "bot",
      policy_id: policyId,
      action_type: "refund",
      amount: "19.90",
      currency: "usd",
      counterparty: unique(),
      idempotency_key: unique(),
    });
  });

  const payment = () => {
    const { idempotency_key: _key, ...members } = action();
    return { ...members, payment_key: unique() };
  };
  const paying = async () => new Gate({ client: await as({ role: "gateway", principal: unique() }) });

  it("the client has every operation of the document", async () => {
    const { paths } = (await (await fetch(`${baseUrl}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { operationId: string }>>;
    };
    const served = Object.values(paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId));
    assert.deepEqual(served.sort(), [...Object.keys(operations), ...documents].sort());
    for (const name of Object.values(operations)) {
      const [on, method] = name.startsWith("admin.") ? [agent.admin, name.slice(6)] : [agent, name];
      assert.equal(typeof (on as unknown as Record<string, unknown>)[method], "function", name);
    }
  });

  it("checks, replays and lists them, with exact amounts", async () => {
    const exact = { ...action(), currency: "EUR", amount: "9007199254740993.123" };
    assert.equal((await agent.check(exact)).decision, "block"); // no cap covers euros
    const [found] = await agent.checks({ counterparty: exact.counterparty }).all();
    assert.equal(found?.action.amount, "9007199254740993.123");

    const asked = action();
    const first = await agent.check(asked);
    assert.deepEqual([first.decision, first.allowed, first.replayed, first.outcome], ["allow", true, false, null]);
    const again = await agent.check({ ...asked, amount: 19.9 });
    assert.deepEqual([again.check_id, again.allowed, again.replayed], [first.check_id, true, true]);
    assert.equal((await agent.getCheck(first.check_id)).allowed, false);
    await assert.rejects(agent.check({ ...asked, amount: 20 }), (problem: APIError) => problem.code === "validation_error");
  });

  it("says every fault of a request", async () => {
    const wrong = { ...action(), agent_id: "", currency: "dollars" };
    await assert.rejects(agent.check(wrong), (problem) => {
      assert.ok(problem instanceof APIError);
      assert.equal(problem.status, 422);
      assert.equal(problem.faults.length, 2, problem.detail);
      assert.match(problem.requestId, /^req_/);
      return true;
    });
    await assert.rejects(
      new Spendgate({ baseUrl, apiKey: "svc_live_wrong" }).check(action()),
      (problem: APIError) => problem.status === 401,
    );
    await assert.rejects(new Spendgate({ baseUrl: "http://127.0.0.1:1", attempts: 1 }).check(action()), NoDecision);
  });

  it("reports outcomes, and a replay says so", async () => {
    const executor = await as({ role: "executor" });
    const asked = action();
    const { check_id } = await agent.check(asked);
    const report = { status: "executed" as const, amount: "10.00", reference: "psp-1" };
    const outcome = await executor.reportOutcome(check_id, report);
    assert.deepEqual([outcome.amount, outcome.replayed], ["10", false]);
    assert.equal((await executor.reportOutcome(check_id, report)).replayed, true);
    assert.equal((await agent.getOutcome(check_id)).reference, "psp-1");
    await assert.rejects(executor.reportOutcome(check_id, { status: "failed" }), (problem: APIError) => problem.latest?.report === 1);
    assert.equal((await executor.reportOutcome(check_id, { ...report, amount: 9, supersedes: 1 })).report, 2);
    const replay = await agent.check(asked);
    assert.deepEqual([replay.allowed, replay.outcome], [false, { status: "executed", release_pending: false }]);
    assert.match(replay.next_step ?? "", /^Do not carry the action out: that was done/);
  });

  it("redeems, once, and says what is in doubt", async () => {
    const gateway = await as({ role: "gateway" });
    const asked = action();
    const { idempotency_key: _key, ...about } = asked;
    const { check_id, allowed } = await agent.check(asked);
    assert.ok(allowed);
    await assert.rejects(gateway.redeem(check_id, { ...about, amount: "19.91" }), (problem: APIError) => problem.code === "action_mismatch");
    const redemption = await gateway.redeem(check_id, about, { idempotencyKey: "r-1" });
    assert.deepEqual([redemption.check_id, redemption.replayed, redemption.action.amount], [check_id, false, "19.9"]);
    assert.equal((await gateway.redeem(check_id, about, { idempotencyKey: "r-1" })).replayed, true);
    await assert.rejects(gateway.redeem(check_id, about), (problem: APIError) => problem.code === "check_already_redeemed");
    const replay = await agent.check(asked);
    assert.deepEqual([replay.allowed, replay.redemption?.redemption_id], [false, redemption.redemption_id]);
    assert.ok((await gateway.reportInDoubt(check_id)).in_doubt_at);
    assert.equal((await agent.check(asked)).redemption?.in_doubt, true);
    const [found] = await author.checks({ outcome: "in_doubt", counterparty: asked.counterparty }).all();
    assert.equal(found?.redemption?.redemption_id, redemption.redemption_id);
    assert.equal((await gateway.reportOutcome(check_id, { status: "executed", reference: "psp" })).report, 1);
  });

  it("simulates, and permits nothing by it", async () => {
    const simulation = await author.simulate(policyId, [{ ...action(), amount: 501 }, action()]);
    assert.deepEqual(
      simulation.results.map(({ decision, allowed }) => [decision, allowed]),
      [
        ["block", false],
        ["allow", false],
      ],
    );
  });

  it("counts checks, and judges recorded ones again", async () => {
    const { timestamp } = await agent.check({ ...action(), amount: 150 });
    const day = timestamp.slice(0, 10);
    const { total, data } = await author.stats({ from: day, to: day, step: "day", policy_id: policyId });
    assert.ok(total.allow > 0 && data.length === 1 && data[0]?.allow === total.allow);
    const sums = await author.sums({ policy_id: policyId, from: day });
    const sum = sums.amounts.find(({ currency }) => currency === "USD"); // other tests check meanwhile
    assert.ok(sums.since === null && sums.checks.allow >= total.allow && Number(sum?.allow) >= 150, JSON.stringify(sums));
    const rules = [{ rule_id: "cap", rule_type: "max_amount", parameters: { limit: 140, currency: "USD" } }];
    const asked = await author.createBacktest({ policy_id: policyId, rules, from: day, to: day });
    let found = asked;
    while (found.status === "queued" || found.status === "running") {
      await new Promise((resolve) => setTimeout(resolve, 200));
      found = await author.backtest(asked.backtest_id);
    }
    assert.equal(found.status, "succeeded", String(found.error));
    assert.ok((found.report?.flips.stricter ?? 0) > 0);
    const flips = await author.flips(asked.backtest_id).all();
    assert.ok(flips.some(({ action, candidate }) => action?.amount === "150" && candidate.decision === "block"));
    const listed = await author.backtests({ policy_id: policyId }).all();
    assert.deepEqual(listed.map(({ backtest_id }) => backtest_id), [asked.backtest_id]);
    await assert.rejects(author.cancelBacktest(asked.backtest_id), (problem: APIError) => problem.status === 409);
  });

  it("judges by a draft, and promotes it", async () => {
    const id = await refunds(author);
    const rules = [{ rule_id: "cap", rule_type: "max_amount", parameters: { limit: 10, currency: "USD" } }];
    const draft = await author.putDraft(id, { name: "tight", rules });
    assert.equal((await author.draft(id)).draft_hash, draft.draft_hash);
    assert.ok((await agent.check({ ...action(), policy_id: id })).allowed);
    let known = await author.draftReport(id);
    assert.equal(known.report, null);
    while (known.status === "queued" || known.status === "running") {
      await new Promise((done) => setTimeout(done, 100));
      known = await author.draftReport(id);
    }
    const { report, flips } = known;
    assert.deepEqual([report?.flips.stricter, flips[0]?.candidate.decision], [1, "block"]);
    await assert.rejects(author.promoteDraft(id, 7), (problem: APIError) => problem.code === "policy_version_mismatch");
    assert.equal((await author.promoteDraft(id, 1, { note: "tighter" })).version, 2);
    await assert.rejects(author.deleteDraft(id), (problem: APIError) => problem.code === "draft_not_found");
    for (const replaces of [1, 0]) {
      const meanwhile = (problem: APIError): boolean => problem.code === "policy_version_mismatch" && problem.message.includes("version 2");
      await assert.rejects(author.createPolicy({ policy_id: id, name: "n", rules }, { replaces }), meanwhile);
    }
    assert.equal((await author.createPolicy({ policy_id: id, name: "n", rules }, { replaces: 2 })).version, 3);
  });

  it("changes a policy by two", async () => {
    const rules = [{ rule_id: "cap", rule_type: "max_amount", parameters: { limit: 10, currency: "USD" } }];
    const { policy_id: id, changes } = await author.createPolicy({ name: "n", rules, changes: { required: 1 } });
    assert.deepEqual(changes, { required: 1 });
    const approver = await as({ role: "approver" });
    const first = await author.putDraft(id, { name: "next", rules });
    const [item] = await approver.waiting({ policy_id: id }).all();
    assert.deepEqual(item?.kind === "draft" && [item.draft_hash, item.missing], [first.draft_hash, 1]);
    const rejected = await approver.rejectDraft(id, first.draft_hash, { note: "no" });
    assert.deepEqual([rejected.status, rejected.rejection?.note], ["rejected", "no"]);
    const draft = await author.putDraft(id, { name: "next", rules }, { replaces: first.draft_hash });
    const refused = (problem: APIError): boolean => problem.code === "change_needs_approval" && problem.message.includes(draft.draft_hash);
    await assert.rejects(author.createPolicy({ policy_id: id, name: "x", rules }), refused);
    await assert.rejects(author.promoteDraft(id, 1), refused);
    const approved = await approver.approveDraft(id, draft.draft_hash, { note: "seen" });
    assert.deepEqual([approved.missing, approved.approvals?.[0]?.note], [0, "seen"]);
    assert.equal((await author.promoteDraft(id, 1)).version, 2);
  });

  it("keeps numbers of policies, and shows budgets", async () => {
    const limit = new ExactNumber("999999999999999.9");
    const rules = [
      { rule_id: "cap", rule_type: "max_amount", parameters: { limit, currency: "USD" } },
      { rule_id: "day", rule_type: "budget", parameters: { limit: 1000.5, currency: "USD", window: "day" } },
    ];
    const created = await author.createPolicy({ name: "n", rules, note: "why" });
    const read = await author.policy(created.policy_id, 1);
    assert.equal(String(read.rules[0]?.parameters["limit"]), "999999999999999.9");
    assert.equal((await author.createPolicy({ policy_id: created.policy_id, name: "n", rules: read.rules })).version, 2);
    const versions = await author.policyVersions(created.policy_id).all();
    assert.deepEqual(
      versions.map(({ version, note }) => [version, note]),
      [
        [2, null],
        [1, "why"],
      ],
    );
    assert.ok((await author.policies({ limit: 1 }).all()).some(({ policy_id }) => policy_id === created.policy_id));

    await agent.check({ ...action(), policy_id: created.policy_id, amount: "0.3" });
    const [budget] = await agent.budgets({ policy_id: created.policy_id, agent_id: "bot" }).all();
    assert.deepEqual([budget?.limit, budget?.used, budget?.remaining, budget?.count], ["1000.5", "0.3", "1000.2", 1]);
  });

  it("has people decide", async () => {
    const person = await as({ role: "approver" });
    const asked = { ...action(), amount: 250 };
    const { approval_id = "" } = await agent.check(asked);
    const waiting = agent.waitForApproval(approval_id, { timeout: 20_000 });
    const pending = await person.waiting({ policy_id: policyId }).all();
    const approval = pending.find((each) => each.kind === "approval" && each.approval_id === approval_id);
    assert.equal(approval?.kind, "approval");
    await person.approve(approval_id, { action_hash: approval?.kind === "approval" ? approval.action_hash : "", note: "fine" });
    assert.equal((await waiting).status, "approved");
    assert.equal((await agent.check({ ...asked, approval_id })).allowed, true);

    const denied = { ...payment(), amount: 250 };
    const refused = (await paying()).check(denied, async () => assert.fail("it ran"), { wait: 20_000 });
    const found = async () =>
      (await person.approvals({ status: "pending", policy_id: policyId }).all()).find(
        (each) => each.action.counterparty === denied.counterparty,
      );
    let other = await found();
    while (!other) other = await found();
    await person.deny(other.approval_id, { action_hash: other.action_hash });
    await assert.rejects(refused, Denied);
  });

  it("lists violations and events", async () => {
    const auditor = await as({ role: "auditor" });
    const blocked = { ...payment(), amount: 501 };
    await assert.rejects((await paying()).check(blocked, async () => assert.fail("it ran")), Blocked);
    const [violation] = await auditor.violations({ policy_id: policyId, decision: "block", limit: 1 }).all();
    assert.equal(violation?.amount, "501");
    let seen = 0;
    let after = 0;
    for await (const page of auditor.eventPages({ type: "violation.recorded", limit: 1 })) {
      seen += page.data.length;
      assert.ok(page.next_after >= after);
      after = page.next_after;
    }
    assert.ok(seen > 0);
    assert.deepEqual(
      (await auditor.events({ after })).data.filter(({ sequence }) => sequence <= after),
      [],
    );
  });

  it("administers keys and webhooks", async () => {
    const { admin: keys } = admin();
    const { key_id, api_key } = await keys.createKey({ name: "n", role: "agent", owner: "team" });
    const own = new Spendgate({ baseUrl, apiKey: api_key });
    assert.equal((await own.self()).owner, "team");
    assert.equal((await keys.updateKey(key_id, { owner: null, active: false })).active, false);
    await assert.rejects(own.self(), (problem: APIError) => problem.code === "api_key_inactive");
    assert.ok((await keys.keys({ limit: 100 }).all()).length > 0);
    assert.deepEqual(await keys.sessions({ limit: 1 }).all(), []);
    await assert.rejects(keys.endSession("ses_1"), (problem: APIError) => problem.code === "session_not_found");

    // Nothing here writes an event of this type: the node neither resolves the receiver's name nor lists a delivery.
    const webhook = await keys.createWebhook({ url: "https://receiver.example/events", event_types: ["policy.forced"] });
    assert.match(webhook.secret, /^whsec_/);
    assert.equal((await keys.updateWebhook(webhook.webhook_id, { status: "disabled" })).status, "disabled");
    assert.notEqual((await keys.rotateWebhook(webhook.webhook_id)).secret, webhook.secret);
    assert.equal((await keys.webhook(webhook.webhook_id)).status, "disabled");
    assert.deepEqual(await keys.deliveries(webhook.webhook_id, { status: "failed" }).all(), []);
    assert.equal((await keys.retryWebhook(webhook.webhook_id)).retried, 0);
    await assert.rejects(
      keys.replayDelivery(webhook.webhook_id, "dlv_1"),
      (problem: APIError) => problem.code === "delivery_not_found",
    );
    await keys.deleteWebhook(webhook.webhook_id);
    assert.ok(!(await keys.webhooks().all()).some(({ webhook_id }) => webhook_id === webhook.webhook_id));
    assert.equal((await new Spendgate({ baseUrl }).health()).status, "ok");
  });
});

it("amounts are exact", () => {
  assert.deepEqual(
    ["19.90", "1e1", "0.10", 0, 10n, 19.9, "-0"].map((value) => amount(value)),
    ["19.9", "10", "0.1", "0", "10", "19.9", "0"],
  );
  for (const wrong of [
    "",
    "-1",
    "1.",
    ".5",
    "1e400",
    "0.1234567891",
    "1234567890123456789",
    "12345678901.123456789",
    0.1 + 0.2,
    NaN,
    -1,
    "１",
  ]) {
    assert.throws(() => amount(wrong), RangeError, String(wrong));
  }
  assert.deepEqual([compareAmounts("10.5", "9"), compareAmounts("1", "1.0"), compareAmounts("0.1", "0.11")], [1, 0, -1]);
  assert.equal(minorUnits("19.9", 2), 1990n);
  assert.throws(() => minorUnits("19.999", 2), RangeError);
});
