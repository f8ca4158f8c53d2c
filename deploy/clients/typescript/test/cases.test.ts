import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

import * as spendgate from "spendgate";
import { fileJournal } from "spendgate/journal";

import { type Exchange, type Members, Scripted, compare } from "./scripted.js";

// The conformance cases that the clients in all languages pass.

interface Run {
  exchanges: Exchange[];
  with?: Members;
  do?: "return" | "raise" | "decline" | "die";
  reference?: any;
  ran?: string | null;
  returns?: unknown;
  raises?: Members;
  resume?: boolean;
  in_doubt?: string[];
  journal?: "new";
  meanwhile?: Members;
}

interface Case {
  name: string;
  call: string;
  with?: Members;
  options?: {
    attempts?: number;
    attempt_timeout?: number;
    max_wait?: number;
    deadline?: number;
    redeem?: boolean;
    provider_key?: boolean;
  };
  exchanges?: Exchange[];
  waits?: [number, number][];
  returns?: unknown;
  raises?: Members;
  runs?: Run[];
  at?: number;
}

interface CaseFile {
  api_key: string;
  admin_key: string;
  action: Members;
  bodies: Record<string, Members>;
  cases: Case[];
}

const file = JSON.parse(readFileSync(process.env["SPENDGATE_CASES"] ?? "../cases.json", "utf8")) as CaseFile;

/** Recording does not wait, and records the pauses. */
class Recording extends spendgate.Spendgate {
  readonly waits: number[] = [];
  protected override async pause(milliseconds: number): Promise<void> {
    this.waits.push(milliseconds / 1000);
  }
}

function connect(baseUrl: string, { attempts, attempt_timeout, max_wait }: NonNullable<Case["options"]> = {}): Recording {
  return new Recording({
    baseUrl,
    apiKey: file.api_key,
    adminKey: file.admin_key,
    ...(attempts === undefined ? {} : { attempts }),
    ...(attempt_timeout === undefined ? {} : { attemptTimeout: 1000 * attempt_timeout }),
    ...(max_wait === undefined ? {} : { maxWait: 1000 * max_wait }),
  });
}

// The calls by their names in the file. Their arguments are any JSON.
type Call = (c: spendgate.Spendgate, given: any, call: spendgate.CallOptions) => Promise<unknown>;
const calls: Record<string, Call> = {
  check: (c, given, call) => c.check(given, call),
  get_check: (c, { check_id }, call) => c.getCheck(check_id, call),
  report_outcome: (c, { check_id, ...report }, call) => c.reportOutcome(check_id, report, call),
  get_outcome: (c, { check_id }, call) => c.getOutcome(check_id, call),
  redeem: (c, { check_id, ...what }, call) => c.redeem(check_id, what, call),
  approval: (c, { approval_id }, call) => c.approval(approval_id, call),
  wait_for_approval: (c, { approval_id }, call) => c.waitForApproval(approval_id, call),
  approve: (c, { approval_id, ...decision }, call) => c.approve(approval_id, decision, call),
  simulate: (c, { policy_id, actions }, call) => c.simulate(policy_id, actions, call),
  create_policy: (c, given, call) => c.createPolicy(given, call),
  create_key: (c, given, call) => c.admin.createKey(given, call),
  update_key: (c, { key_id, ...change }, call) => c.admin.updateKey(key_id, change, call),
  self: (c, _given, call) => c.self(call),
  violations: (c, given) => c.violations(given).all(),
  checks: (c, given) => c.checks(given).all(),
  budgets: (c, given) => c.budgets(given).all(),
  events: (c, given, call) => c.events(given, call),
};

const kinds: [string, new (...args: never[]) => spendgate.SpendgateError][] = [
  ["api_error", spendgate.APIError],
  ["no_decision", spendgate.NoDecision],
  ["no_answer", spendgate.NoAnswer],
  ["bad_signature", spendgate.BadSignature],
  ["blocked", spendgate.Blocked],
  ["approval_pending", spendgate.ApprovalPending],
  ["approval_expired", spendgate.ApprovalExpired],
  ["denied", spendgate.Denied],
  ["already_executed", spendgate.AlreadyExecuted],
  ["redemption_required", spendgate.RedemptionRequired],
  ["already_reported", spendgate.AlreadyReported],
  ["unanswered", spendgate.Unanswered],
  ["in_doubt", spendgate.InDoubt],
  ["key_reused", spendgate.KeyReused],
];

class Declined extends Error {}
class Died extends Error {}

/** raised has an error's members as the file names them. */
function raised(problem: unknown): Members {
  if (problem instanceof Declined) return { kind: "declined" };
  if (problem instanceof Died) return { kind: "died" };
  const kind = kinds.find(([, type]) => problem instanceof type)?.[0];
  assert.ok(kind, String(problem));
  const of = problem as { cause?: unknown; checkId?: string; approvalId?: string };
  const refused = [problem, of.cause].find((error) => error instanceof spendgate.APIError);
  const {
    status,
    code,
    detail: message,
    requestId: request_id,
    retryAfter: retry_after,
    nextAfter: next_after,
  } = refused ?? ({} as Partial<spendgate.APIError>);
  return { kind, status, code, message, request_id, retry_after, next_after, check_id: of.checkId, approval_id: of.approvalId };
}

async function judge(want: { returns?: unknown; raises?: Members }, call: () => Promise<unknown>): Promise<unknown> {
  let value: unknown;
  try {
    value = await call();
  } catch (problem) {
    assert.ok(want.raises, problem as Error);
    compare("raised", want.raises, raised(problem));
    return problem;
  }
  assert.equal(want.raises, undefined, JSON.stringify(value));
  compare("returned", want.returns, value);
  return undefined;
}

async function playCall(c: Case): Promise<void> {
  const scripted = new Scripted(c.exchanges ?? [], file.bodies);
  const given = c.call === "check" ? { ...file.action, ...c.with } : c.with;
  const timeout = c.options?.deadline === undefined ? {} : { timeout: 1000 * c.options.deadline };
  await scripted.play(async (url) => {
    const client = connect(url, c.options);
    const problem = await judge(c, () => (calls[c.call] as Call)(client, given, timeout));
    if (problem instanceof spendgate.NoDecision) {
      assert.equal((JSON.parse(scripted.last) as Members)["idempotency_key"], problem.idempotencyKey);
    }
    if (!c.waits) return;
    assert.equal(client.waits.length, c.waits.length, `waited ${client.waits}`);
    c.waits.forEach(([least, most], i) => {
      const waited = client.waits[i] as number;
      assert.ok(waited >= least && waited <= most, `waited ${client.waits}`);
    });
  });
}

async function playRun(run: Run, c: Case, journal: spendgate.Journal): Promise<Set<string>> {
  const { redeem, provider_key: providerKey = false } = c.options ?? {};
  const scripted = new Scripted(run.exchanges, file.bodies);
  await scripted.play(async (url) => {
    const gate = new spendgate.Gate({ client: connect(url, c.options), journal, ...(redeem === undefined ? {} : { redeem }) });
    if (run.resume) {
      const { in_doubt } = await gate.resume();
      const keys = in_doubt.map(({ idempotency_key }) => idempotency_key);
      return assert.deepEqual(keys, run.in_doubt);
    }
    let ran: string | null = null;
    let die: (problem: Died) => void = () => undefined;
    const died = new Promise<never>((_, reject) => (die = reject));
    const body = async ({ check_id }: spendgate.Permit) => {
      ran = check_id;
      if (run.do === "raise") throw new Error("nobody knows");
      if (run.do === "decline") throw new Declined("refused by the card");
      if (run.do !== "die") return run.reference ?? "psp-1";
      die(new Died());
      return new Promise<string>(() => undefined);
    };
    const action: Members = { ...file.action, ...c.with, ...run.with };
    const options = {
      providerKey,
      declined: (problem: unknown) => problem instanceof Declined,
      report: (reference: string) => ({ reference }),
    };
    scripted.after = () => Object.assign(action, run.meanwhile);
    const plan = Object.fromEntries(Object.keys(action).map((name) => [name, (of: Members) => of[name]]));
    const carry = gate.guard({ ...plan, key: (of: Members) => String(of["idempotency_key"]) }, (_, permit) => body(permit), options);
    const called = run.meanwhile ? carry : (of: Members) => gate.check(of as spendgate.GuardedAction, body, options);
    await judge(run, () => Promise.race([called(action), died]));
    assert.equal(ran, run.ran, "ran");
  });
  return scripted.nonces;
}

async function playRuns(c: Case): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "journal-"));
  try {
    const sent = [new Set<string>()]; // the nonces over each journal
    for (const run of c.runs ?? []) {
      if (run.journal === "new") sent.push(new Set());
      for (const nonce of await playRun(run, c, fileJournal(join(directory, String(sent.length))))) sent.at(-1)?.add(nonce);
    }
    const nonces = sent.flatMap((of) => [...of]);
    assert.ok(sent.every((of) => of.size <= 1) && new Set(nonces).size === nonces.length, nonces.join());
  } finally {
    rmSync(directory, { recursive: true });
  }
}

async function playWebhook(c: Case): Promise<void> {
  const { secrets, headers, body } = c.with as { secrets: string[]; headers: [string, string][]; body: string };
  await judge(c, () => spendgate.verifyWebhook(secrets, new Headers(headers), body, new Date(1000 * (c.at ?? 0))));
}

describe("conformance", { concurrency: 8 }, () => {
  for (const c of file.cases) {
    it(c.name, () => (c.call === "guard" ? playRuns(c) : c.call === "verify_webhook" ? playWebhook(c) : playCall(c)));
  }
});
