import { Admin } from "./admin.js";
import { amount } from "./amount.js";
import { type Accept, approval, checkResult, events, having, object, of, page, replayable, results, sums } from "./accept.js";
import { APIError, NoDecision } from "./errors.js";
import { List } from "./list.js";
import { type CallOptions, type Options, type Reply, type Request, Sender, retryAfter, understand, withQuery } from "./send.js";
import type * as T from "./types.js";

/** The longest time that the service holds an answer, in milliseconds. */
const longestHold = 30_000;

/** newIdempotencyKey returns a key of 128 random bits. */
export const newIdempotencyKey = (): string => newKey("ts-");

export function newKey(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `${prefix}${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * Spendgate is a client of one service. Requests that may safely be repeated are repeated, with
 * exponential backoff and full jitter, after a lost connection, a 5xx and a 429, whose
 * Retry-After is honoured. A refusal throws an APIError, any other failure a NoAnswer, and a
 * check of which it is unknown whether it was decided a NoDecision.
 */
export class Spendgate {
  readonly #sender: Sender;
  /** The operations that need the admin key: on API keys, sessions and webhooks. */
  readonly admin: Admin;

  constructor(options: Options) {
    this.#sender = new Sender(options, (milliseconds, signal) => this.pause(milliseconds, signal));
    this.admin = new Admin((request, accept) => this.#fetch(request, accept));
  }

  /** pause waits. It throws the reason of the signal if that is aborted. */
  async pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(done, milliseconds);
      const giveUp = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      function done() {
        signal?.removeEventListener("abort", giveUp);
        resolve();
      }
      if (signal?.aborted) giveUp();
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }

  async #fetch<R>(request: Request, accept: Accept<R>): Promise<R> {
    const { reply, error } = await this.#sender.send(request);
    if (!reply) throw error;
    return understand(reply, accept);
  }

  #get<R>(path: string, query: object, accept: Accept<R>, call?: CallOptions): Promise<R> {
    return this.#fetch({ ...call, method: "GET", path: withQuery(path, query), repeatable: true }, accept);
  }

  #list<R>(path: string, query: object, name: string): List<R> {
    return new List((cursor, call) => this.#get(path, { ...query, cursor }, page<R>(name, cursor), call));
  }

  /**
   * check asks whether an action may be carried out. It may only if the result is `allowed`: the
   * result itself is true in every condition. Only Gate prevents that it is carried out twice. All
   * attempts carry one key, the action's payment_key or idempotency_key, or a new idempotency_key. Where
   * a payment waits for people, the service holds its answer for up to `wait` milliseconds, at most 30,000. An attempt
   * that may have been executed is repeated for `persist` milliseconds, even beyond the attempts of the client, and so is one
   * whose answer is not the service's.
   * It throws an APIError when the service refused the request, and then recorded nothing, and a
   * NoDecision when it may have decided.
   */
  async check(action: T.Action, { wait = 0, ...call }: CallOptions & { wait?: number; persist?: number } = {}): Promise<T.CheckResult> {
    const payment = isBlank(action.payment_key) ? undefined : action.payment_key;
    const key = payment ?? (isBlank(action.idempotency_key) ? newIdempotencyKey() : action.idempotency_key);
    const content = payment === undefined ? { ...sent(action), idempotency_key: key } : sent(action);
    const understood = (reply: Reply) => understand(reply, checkResult(true, payment));
    const accept = call.persist === undefined ? {} : { accept: understood };
    const request = { ...call, ...accept, method: "POST", path: "/v1/checks", content, repeatable: true, wait: held(wait) };
    const { reply, error, unknown } = await this.#sender.send(request);
    if (error instanceof APIError && error.definite && !unknown) throw error;
    if (!reply) throw new NoDecision(key, error as Error);
    try {
      return understood(reply);
    } catch (problem) {
      throw new NoDecision(key, problem as Error);
    }
  }

  /** getCheck reads an earlier check and its outcome. The result is a record, not a permission. */
  getCheck(checkId: string, call?: CallOptions): Promise<T.CheckResult> {
    return this.#get(checkPath(checkId), {}, of(checkId, checkResult(false)), call);
  }

  checks(query: T.CheckQuery = {}): List<T.CheckRecord> {
    return this.#list("/v1/checks", query, "check_id");
  }

  /** stats counts checks by decision, exactly, for every step of a range. */
  stats(query: T.StatsQuery, call?: CallOptions): Promise<T.Stats> {
    return this.#get("/v1/stats", query, having("step"), call);
  }

  /** sums adds up the amounts of checks by currency and decision: of the newest 100,000 of the range, if since is set. */
  sums(query: T.SumsQuery = {}, call?: CallOptions): Promise<T.Sums> {
    return this.#get("/v1/sums", query, sums, call);
  }

  /** simulate judges up to 100 actions, or 10 without an API key, and records nothing. Its results permit nothing. */
  simulate(
    policyId: string,
    actions: (Omit<T.Action, "policy_id"> & { policy_id?: string })[],
    call?: CallOptions,
  ): Promise<T.Simulation> {
    const content = { policy_id: policyId, actions: actions.map((action) => sent({ policy_id: policyId, ...action })) };
    return this.#fetch({ ...call, method: "POST", path: "/v1/simulate", content, repeatable: true }, (body) => {
      const members = object(body);
      return { ...members, results: results(members["results"], actions.length) } as T.Simulation;
    });
  }

  /** reportOutcome reports what became of an allowed check. After any error other than an APIError, report again. */
  reportOutcome(checkId: string, report: T.OutcomeReport, call?: CallOptions): Promise<T.Outcome & { replayed: boolean }> {
    const content = { ...report, amount: report.amount === undefined ? undefined : amount(report.amount) };
    const request = {
      ...call,
      method: "POST",
      path: `${checkPath(checkId)}/outcome`,
      content,
      statuses: [200, 201],
      repeatable: true,
    };
    return this.#fetch(request, of(checkId, replayable<T.Outcome>("check_id", "status", "release")));
  }

  /** getOutcome reads the last report about a check. */
  getOutcome(checkId: string, call?: CallOptions): Promise<T.Outcome> {
    return this.#get(`${checkPath(checkId)}/outcome`, {}, of(checkId, having<T.Outcome>("check_id", "status", "release")), call);
  }

  /**
   * redeem redeems an allowed check before its action is carried out; it succeeds once. It needs the
   * action that is about to be carried out, or its hash. Repeating the idempotency key gives the
   * same redemption.
   */
  redeem(checkId: string, what: T.Redeemed, call: CallOptions & { idempotencyKey?: string } = {}): Promise<T.Redemption> {
    const { idempotencyKey = newIdempotencyKey(), ...rest } = call;
    const content = what.amount === undefined ? what : sent(what as T.Action);
    return this.#fetch(
      { ...rest, method: "POST", path: `${checkPath(checkId)}/redeem`, content, idempotencyKey, repeatable: true },
      of(checkId, replayable<T.Redemption>("check_id", "redemption_id", "action_hash")),
    );
  }

  /** reportInDoubt reports that it is unknown whether the action of a redeemed check was carried out. */
  reportInDoubt(checkId: string, content: T.DoubtReport = {}, call?: CallOptions): Promise<T.RecordedRedemption> {
    const request = { ...call, method: "POST", path: `${checkPath(checkId)}/in-doubt`, content, statuses: [200, 201], repeatable: true };
    return this.#fetch(request, of(checkId, having<T.RecordedRedemption>("check_id", "redemption_id")));
  }

  /** approval reads an approval. While it is pending, the service holds the answer for up to `wait` milliseconds, at most 30,000. */
  async approval(approvalId: string, call: CallOptions & { wait?: number } = {}): Promise<T.Approval> {
    return (await this.#approval(approvalId, call)).approval;
  }

  #approval(approvalId: string, { wait = 0, ...call }: CallOptions & { wait?: number }) {
    const request = { ...call, method: "GET", path: approvalPath(approvalId), repeatable: true, wait: held(wait) };
    return this.#fetch(request, (body, reply) => ({
      approval: approval(body, reply),
      retryAfter: 1000 * retryAfter(reply.headers),
    }));
  }

  /**
   * waitForApproval asks until the approval is no longer pending, and returns it; the caller must
   * look whether it is approved. If the timeout ends first, the returned approval is still pending.
   */
  async waitForApproval(approvalId: string, { timeout = Infinity, signal }: CallOptions = {}): Promise<T.Approval> {
    const ends = performance.now() + timeout;
    for (;;) {
      const asked = performance.now();
      const left = ends - asked;
      const wait = Math.min(longestHold, Math.ceil(Math.max(0, left - 2_000) / 1000) * 1000); // leaves time for the answer
      const { approval, retryAfter } = await this.#approval(approvalId, { wait, signal, timeout: left });
      if (approval.status !== "pending") return approval;
      // If the service held the answer, that time counts as a part of the pause.
      const pause = Math.max(retryAfter, 1_000) - (performance.now() - asked);
      if (performance.now() + pause > ends) return approval;
      await this.pause(pause, signal);
    }
  }

  approvals(query: Omit<T.ApprovalQuery, "waiting_for"> = {}): List<T.Approval> {
    return this.#list("/v1/approvals", query, "approval_id");
  }

  /** waiting lists what an approval with this key brings forward: approvals, soonest to expire first, then drafts of policies. */
  waiting(query: Omit<T.ApprovalQuery, "waiting_for" | "status"> = {}): List<T.ApprovalItem> {
    return this.#list("/v1/approvals", { ...query, waiting_for: "me" }, "kind");
  }

  /** approve approves exactly the action that has the hash, and returns the approval with this decision. */
  approve(
    approvalId: string,
    decision: { action_hash: string; note?: string | undefined },
    call?: CallOptions,
  ): Promise<T.Approval> {
    return this.#decide(approvalId, "approve", decision, call);
  }

  /** deny denies the approval, even if it was approved and is not used yet. */
  deny(
    approvalId: string,
    decision: { action_hash: string; note?: string | undefined },
    call?: CallOptions,
  ): Promise<T.Approval> {
    return this.#decide(approvalId, "deny", decision, call);
  }

  #decide(approvalId: string, verb: string, content: unknown, call?: CallOptions): Promise<T.Approval> {
    return this.#fetch(
      { ...call, method: "POST", path: `${approvalPath(approvalId)}/${verb}`, content, repeatable: true },
      approval,
    );
  }

  budgets(query: T.BudgetQuery): List<T.Budget> {
    return this.#list("/v1/budgets", query, "rule_id");
  }

  violations(query: T.ViolationQuery = {}): List<T.Violation> {
    return this.#list("/v1/violations", query, "violation_id");
  }

  /** events reads a page of the feed. Store next_after together with the effects of the events: then none is missed or comes twice. */
  events(query: T.EventQuery = {}, call?: CallOptions): Promise<T.EventPage> {
    const { after = 0, ...rest } = query;
    return this.#get("/v1/events", { ...rest, after: after || undefined }, events(after), call); // an after of 0 would override from
  }

  /** eventPages yields pages from `after` on. With `poll` (milliseconds) it never ends and asks for more at that interval. */
  async *eventPages(
    { poll, ...query }: T.EventQuery & { poll?: number } = {},
    call?: CallOptions,
  ): AsyncGenerator<T.EventPage, void, undefined> {
    for (let after = query.after ?? 0; ;) {
      const page = await this.events({ ...query, after }, call);
      yield page;
      after = page.next_after;
      if (page.has_more) continue;
      if (poll === undefined) return;
      await this.pause(poll, call?.signal);
    }
  }

  /**
   * createPolicy stores a policy's next version. With `replaces` it does so only if that version is in force (0: if there is none).
   * The request is not repeated when the version may have been stored.
   */
  createPolicy(policy: T.NewPolicy, call: CallOptions & { replaces?: number | undefined } = {}): Promise<T.Policy> {
    const { replaces, ...options } = call;
    const request = { ...options, method: "POST", path: "/v1/policies", content: policy, statuses: [201] };
    const condition = replaces === undefined ? {} : { ifMatch: String(replaces) };
    return this.#fetch({ ...request, ...condition }, having("policy_id", "created_at"));
  }

  /** policy reads a version of a policy, the latest by default. */
  policy(policyId: string, version?: number, call?: CallOptions): Promise<T.Policy> {
    return this.#get(policyPath(policyId), { version }, having("policy_id", "created_at"), call);
  }

  policies(query: { limit?: number } = {}): List<T.Policy> {
    return this.#list("/v1/policies", query, "policy_id");
  }

  policyVersions(policyId: string, query: { limit?: number } = {}): List<T.PolicyVersion> {
    return this.#list(`${policyPath(policyId)}/versions`, query, "policy_id");
  }

  /** createFreeze stops everything in a scope until people release it. It is repeated only with an idempotency_key. */
  createFreeze(asked: T.NewFreeze, call?: CallOptions): Promise<T.Freeze> {
    const repeatable = asked.idempotency_key !== undefined;
    return this.#fetch({ ...call, method: "POST", path: "/v1/freezes", content: asked, statuses: [200, 201], repeatable }, freeze);
  }

  freeze(freezeId: string, call?: CallOptions): Promise<T.Freeze> {
    return this.#get(freezePath(freezeId), {}, freeze, call);
  }

  /** freezes lists freezes, newest first. */
  freezes(query: T.FreezeQuery = {}): List<T.Freeze> {
    return this.#list("/v1/freezes", query, "freeze_id");
  }

  /** releaseFreeze releases a freeze, alone or as one of the people who are required. Releasing again is a replay. */
  releaseFreeze(freezeId: string, note: string, call?: CallOptions): Promise<T.Freeze> {
    const path = `${freezePath(freezeId)}/release`;
    return this.#fetch({ ...call, method: "POST", path, content: { note }, repeatable: true }, freeze);
  }

  /** createGrant raises the limit of one counter of a budget until a time. It is repeated only with an idempotency_key. */
  createGrant(asked: T.NewGrant, call?: CallOptions): Promise<T.Grant> {
    const repeatable = asked.idempotency_key !== undefined;
    return this.#fetch({ ...call, method: "POST", path: "/v1/grants", content: asked, statuses: [200, 201], repeatable }, grant);
  }

  grant(grantId: string, call?: CallOptions): Promise<T.Grant> {
    return this.#get(grantPath(grantId), {}, grant, call);
  }

  /** grants lists grants, newest first. */
  grants(query: T.GrantQuery = {}): List<T.Grant> {
    return this.#list("/v1/grants", query, "grant_id");
  }

  /** approveGrant approves a grant that waits for people. Approving again is a replay. */
  approveGrant(grantId: string, note?: string, call?: CallOptions): Promise<T.Grant> {
    return this.#fetch({ ...call, method: "POST", path: `${grantPath(grantId)}/approve`, content: { note }, repeatable: true }, grant);
  }

  /** revokeGrant ends a grant; what passed stays. Revoking again is a replay. */
  revokeGrant(grantId: string, note?: string, call?: CallOptions): Promise<T.Grant> {
    return this.#fetch({ ...call, method: "POST", path: `${grantPath(grantId)}/revoke`, content: { note }, repeatable: true }, grant);
  }

  /** createBacktest starts a backtest, by other rules or another version. It is not repeated when it may have been stored. */
  createBacktest(asked: T.NewBacktest, call?: CallOptions): Promise<T.Backtest> {
    return this.#fetch({ ...call, method: "POST", path: "/v1/backtests", content: asked, statuses: [202] }, backtest);
  }

  /** backtest reads a backtest, with its report once it has succeeded. */
  backtest(backtestId: string, call?: CallOptions): Promise<T.Backtest> {
    return this.#get(backtestPath(backtestId), {}, backtest, call);
  }

  cancelBacktest(backtestId: string, call?: CallOptions): Promise<T.Backtest> {
    return this.#fetch({ ...call, method: "POST", path: `${backtestPath(backtestId)}/cancel`, repeatable: true }, backtest);
  }

  /** backtests lists the backtests of the last 30 days, newest first, without rules and reports. */
  backtests(query: T.BacktestQuery = {}): List<T.BacktestSummary> {
    return this.#list("/v1/backtests", query, "backtest_id");
  }

  /** flips lists the checks that the candidate decides otherwise, in their order. */
  flips(backtestId: string, query: { limit?: number } = {}): List<T.Flip> {
    return this.#list(`${backtestPath(backtestId)}/flips`, query, "check_id");
  }

  /**
   * putDraft stores a policy's draft, in place of the one before. Storing the same draft again changes nothing. replaces is the
   * draft_hash of the draft that it replaces; that of another author must be given.
   */
  putDraft(policyId: string, draft: T.NewDraft, { replaces, ...call }: CallOptions & { replaces?: string } = {}): Promise<T.Draft> {
    const request = { ...call, method: "PUT", path: draftPath(policyId), content: draft, repeatable: true, ifMatch: replaces ?? "" };
    return this.#fetch(request, having("policy_id", "draft_hash"));
  }

  draft(policyId: string, call?: CallOptions): Promise<T.Draft> {
    return this.#get(draftPath(policyId), {}, having("policy_id", "draft_hash"), call);
  }

  /** draftReport reads the report that compares the draft's decisions with those made since it was put, as far as it is known. */
  draftReport(policyId: string, call?: CallOptions): Promise<T.DraftReport> {
    const request = { ...call, method: "GET", path: `${draftPath(policyId)}/report`, statuses: [200, 202], repeatable: true };
    return this.#fetch(request, having("policy_id", "draft_hash"));
  }

  /** deleteDraft deletes the draft; that of another author only by its draft_hash. The request is not repeated when it may have been carried out. */
  async deleteDraft(policyId: string, { draft_hash, ...call }: CallOptions & { draft_hash?: string } = {}): Promise<void> {
    const request = { ...call, method: "DELETE", path: draftPath(policyId), statuses: [204], ifMatch: draft_hash ?? "" };
    await this.#fetch(request, () => undefined);
  }

  /** approveDraft approves the draft with that hash, if the version in force requires approvals. Approving again is a replay. */
  approveDraft(
    policyId: string,
    draftHash: string,
    content: { note?: string; drop_budgets?: string[] } = {},
    call?: CallOptions,
  ): Promise<T.Draft> {
    const path = `${draftPath(policyId)}/approve`;
    const request = { ...call, method: "POST", path, content: { draft_hash: draftHash, ...content }, repeatable: true };
    return this.#fetch(request, having("policy_id", "draft_hash"));
  }

  /** rejectDraft rejects the draft with that hash, if the version in force requires approvals. Rejecting again is a replay. */
  rejectDraft(policyId: string, draftHash: string, content: { note?: string } = {}, call?: CallOptions): Promise<T.Draft> {
    const path = `${draftPath(policyId)}/reject`;
    const request = { ...call, method: "POST", path, content: { draft_hash: draftHash, ...content }, repeatable: true };
    return this.#fetch(request, having("policy_id", "draft_hash"));
  }

  /**
   * promoteDraft makes the draft the next version if the given version is in force. If draft_hash is given, the draft must have it.
   * The request is not repeated when it may have been carried out.
   */
  promoteDraft(
    policyId: string,
    version: number,
    content: { draft_hash?: string; note?: string; drop_budgets?: string[] } = {},
    call?: CallOptions,
  ): Promise<T.Policy> {
    const path = `${draftPath(policyId)}/promote`;
    const request = { ...call, method: "POST", path, content, statuses: [201], ifMatch: String(version) };
    return this.#fetch(request, having("policy_id", "created_at"));
  }

  /** self reads the record of the client's own API key. */
  self(call?: CallOptions): Promise<T.Key> {
    return this.#get("/v1/keys/self", {}, having("key_id"), call);
  }

  /** health asks whether the service answers. It needs no key. */
  health(call?: CallOptions): Promise<T.Health> {
    return this.#get("/health", {}, having("status"), call);
  }
}

/** sent returns an action with its exact amount. */
function sent(action: T.Action): object {
  return { ...action, amount: amount(action.amount) };
}

/** The service treats white space as no key, too. */
function isBlank(key: string | undefined): key is undefined {
  return key === undefined || /^[\s\u0085]*$/.test(key);
}

/** held returns for how many seconds the service is asked to hold its answer. */
function held(wait: number): number {
  return Math.floor(Math.max(0, Math.min(wait, longestHold)) / 1000);
}

const freeze = having<T.Freeze>("freeze_id", "status");

const freezePath = (freezeId: string) => `/v1/freezes/${encodeURIComponent(freezeId)}`;
const grant = having<T.Grant>("grant_id", "status");
const grantPath = (grantId: string) => `/v1/grants/${encodeURIComponent(grantId)}`;
const backtest = having<T.Backtest>("backtest_id", "status");

const backtestPath = (backtestId: string) => `/v1/backtests/${encodeURIComponent(backtestId)}`;
const draftPath = (policyId: string) => `${policyPath(policyId)}/draft`;
const checkPath = (checkId: string) => `/v1/checks/${encodeURIComponent(checkId)}`;
const approvalPath = (approvalId: string) => `/v1/approvals/${encodeURIComponent(approvalId)}`;
const policyPath = (policyId: string) => `/v1/policies/${encodeURIComponent(policyId)}`;
