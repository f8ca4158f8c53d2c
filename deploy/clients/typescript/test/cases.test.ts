import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

import * as spendgate from "spendgate";

import { type Exchange, type Members, Scripted, compare } from "./scripted.js";

// The conformance cases that the clients in all languages pass.

interface Case {
  name: string;
  call: string;
  with?: Members;
  options?: {
    attempts?: number;
    attempt_timeout?: number;
    max_wait?: number;
    deadline?: number;
    admin_only?: boolean;
  };
  exchanges?: Exchange[];
  waits?: [number, number][];
  returns?: unknown;
  raises?: Members;
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
  override async pause(milliseconds: number): Promise<void> {
    this.waits.push(milliseconds / 1000);
  }
}

function connect(baseUrl: string, { attempts, attempt_timeout, max_wait, admin_only }: NonNullable<Case["options"]> = {}): Recording {
  return new Recording({
    baseUrl,
    ...(admin_only ? {} : { apiKey: file.api_key }),
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
  create_freeze: (c, given, call) => c.createFreeze(given, call),
  release_freeze: (c, { freeze_id, note }, call) => c.releaseFreeze(freeze_id, note, call),
  freezes: (c, given) => c.freezes(given).all(),
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
];

/** raised has an error's members as the file names them. */
function raised(problem: unknown): Members {
  const kind = kinds.find(([, type]) => problem instanceof type)?.[0];
  assert.ok(kind, String(problem));
  const refused = [problem, (problem as Error).cause].find((error) => error instanceof spendgate.APIError);
  const {
    status,
    code,
    detail: message,
    requestId: request_id,
    retryAfter: retry_after,
    nextAfter: next_after,
  } = refused ?? ({} as Partial<spendgate.APIError>);
  return { kind, status, code, message, request_id, retry_after, next_after };
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
      assert.equal((JSON.parse(scripted.last) as Members)["idempotency_key"], problem.key);
    }
    if (!c.waits) return;
    assert.equal(client.waits.length, c.waits.length, `waited ${client.waits}`);
    c.waits.forEach(([least, most], i) => {
      const waited = client.waits[i] as number;
      assert.ok(waited >= least && waited <= most, `waited ${client.waits}`);
    });
  });
}

async function playWebhook(c: Case): Promise<void> {
  const { secrets, headers, body } = c.with as { secrets: string[]; headers: [string, string][]; body: string };
  await judge(c, () => spendgate.verifyWebhook(secrets, new Headers(headers), body, new Date(1000 * (c.at ?? 0))));
}

describe("conformance", { concurrency: 8 }, () => {
  for (const c of file.cases) {
    it(c.name, () => (c.call === "verify_webhook" ? playWebhook(c) : playCall(c)));
  }
});
