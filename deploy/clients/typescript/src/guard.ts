import { type Spendgate, mayBeOwnReplay, newIdempotencyKey } from "./client.js";
import { amount } from "./amount.js";
import {
  APIError,
  AlreadyExecuted,
  AlreadyReported,
  ApprovalExpired,
  ApprovalPending,
  Blocked,
  Denied,
  InDoubt,
  KeyReused,
  type NotCarriedOut,
  SpendgateError,
} from "./errors.js";
import { type Journal, type Line, type Lines, memoryJournal } from "./journal.js";
import { encode } from "./json.js";
import type { Action, Approval, CheckResult, OutcomeReport } from "./types.js";

export interface GateOptions {
  client: Spendgate;
  /** Remembers over crashes what was begun. Only a gate that redeems can do without. */
  journal?: Journal;
  /** Members of actions that are the same for all, such as agent_id and policy_id. */
  defaults?: Partial<Action>;
  /** Whether checks are redeemed before they are carried out. By default those of a key of role gateway are. */
  redeem?: boolean;
}

/** An action of a gate: the members that the gate has defaults for may be left out. */
export type GuardedAction = Partial<Action> & { idempotency_key: string };

/** What the body is given: under check_id the payment provider carries it out at most once. */
export interface Permit {
  check_id: string;
  idempotency_key: string;
}

export interface CarryOptions<R> {
  /** The body passes check_id to a provider that takes idempotency keys: what is in doubt is repeated under the same one. */
  providerKey?: boolean;
  /** For how long the provider is sure to know such a key; 24 by default. What began before that is not repeated. */
  providerKeyHours?: number;
  /** How long people are waited for, in milliseconds; 0 by default. */
  wait?: number;
  /** Whether what the body threw means that certainly nothing was moved. By default nothing does. */
  declined?: (problem: unknown) => boolean;
  /** What is reported of the body's value, such as the provider's reference. */
  report?: (value: R) => Omit<OutcomeReport, "status">;
}

/** How the input of a guarded function becomes an action: each member a value, or a function of the input. */
export type Plan<I> = { key: (input: I) => string } & {
  [M in Exclude<keyof Action, "idempotency_key" | "approval_id">]?: Action[M] | ((input: I) => Action[M]);
};

export interface Guarded<I, R> {
  (input: I): Promise<R>;
  /** pending asks the service and says for whom it would wait; undefined when for nobody. Nothing is carried out. */
  pending(input: I): Promise<ApprovalPending | undefined>;
}

/** What resume did, by idempotency keys. */
export interface Resumed {
  /** Ended before, reported now. */
  reported: string[];
  /** Ended, and the report failed: resume again. */
  unreported: string[];
  /** Find out at the provider, then settle; or, if the provider takes a key, call the guarded function again. */
  in_doubt: { idempotency_key: string; check_id: string }[];
}

interface Asked extends Permit {
  repeated: boolean;
}

/**
 * Gate runs what moves money only after a complete 200 allow without an outcome, at most
 * once per idempotency key, whatever is killed, and reports how it ended. Whatever it throws
 * but the body's own error is a SpendgateError; a NotCarriedOut says why it did not run.
 */
export class Gate {
  readonly #client: Spendgate;
  readonly #journal: Journal;
  readonly #defaults: Partial<Action>;
  readonly #running = new Set<string>();
  #redeem: boolean | undefined;

  constructor({ client, journal, defaults = {}, redeem }: GateOptions) {
    if (!journal && !redeem) throw new TypeError("a gate that does not redeem needs a journal");
    this.#client = client;
    this.#journal = journal ?? memoryJournal();
    this.#defaults = defaults;
    this.#redeem = redeem;
  }

  /** guard returns a function that carries out `body` as `check` does. */
  guard<I, R>(plan: Plan<I>, body: (input: I, permit: Permit) => R | Promise<R>, options: CarryOptions<R> = {}): Guarded<I, R> {
    if (/Generator/.test(Object.prototype.toString.call(body)))
      throw new TypeError("a generator runs after its call: it cannot be guarded");
    const action = (input: I) => {
      const members = Object.entries(plan).map(([name, member]) => [
        name === "key" ? "idempotency_key" : name,
        typeof member === "function" ? member(input) : member,
      ]);
      return Object.fromEntries(members) as GuardedAction;
    };
    const guarded = async (input: I) => this.check(action(input), (permit) => body(input, permit), options);
    return Object.assign(guarded, { pending: async (input: I) => this.pending(action(input)) });
  }

  /** check asks whether the action may be carried out, and if so runs the body, once, and reports how it ended. */
  async check<R>(action: GuardedAction, body: (permit: Permit) => R | Promise<R>, options: CarryOptions<R> = {}): Promise<R> {
    const whole = this.#whole(action);
    const key = whole.idempotency_key;
    if (this.#running.has(key)) throw new InDoubt(key, "", "it is being carried out now");
    this.#running.add(key);
    try {
      const asked = await this.#ask(whole, options);
      await this.#begin(whole, asked, options);
      return await this.#carryOut(asked, body, options);
    } finally {
      this.#running.delete(key);
    }
  }

  /** pending asks the service, and returns the approval that the action waits for, undefined when it waits for none. */
  async pending(action: GuardedAction): Promise<ApprovalPending | undefined> {
    try {
      await this.#ask(this.#whole(action), {});
    } catch (problem) {
      if (problem instanceof ApprovalPending) return problem;
      if (!(problem instanceof SpendgateError)) throw problem;
    }
    return undefined;
  }

  #whole(action: GuardedAction): Action & { idempotency_key: string } {
    const whole = { ...this.#defaults, ...action } as Action & { idempotency_key: string };
    if (typeof whole.idempotency_key !== "string" || !whole.idempotency_key.trim())
      throw new TypeError("what is guarded needs an idempotency key of its own");
    return whole;
  }

  /** ask returns the permit for an action, or throws why there is none. Nothing is begun yet. */
  async #ask(
    action: Action & { idempotency_key: string },
    { providerKey = false, providerKeyHours = 24, wait = 0 }: CarryOptions<never>,
  ): Promise<Asked> {
    const key = action.idempotency_key;
    const hash = await sha256(canonical(action));
    let lines = await this.#journal.read(key);
    const first = !lines.asked && (await this.#journal.add(key, "asked", { key, action: hash, seed: newIdempotencyKey() }));
    if (!lines.asked) lines = await this.#journal.read(key);
    if (lines.asked?.action !== hash) throw new KeyReused(key);
    if (lines.ended || lines.closed) {
      await this.#reportEnd(lines);
      throw over(lines);
    }
    const before = lines.began ?? lines.doubted;
    if (before) return this.#again(key, before, providerKey ? providerKeyHours : 0);
    const redeems = await this.#redeems();
    const result = await this.#decided(action, wait);
    const permit = { check_id: result.check_id, idempotency_key: key };
    if (result.redemption && !redeems) throw new InDoubt(key, result.check_id, "somebody redeemed the check to carry the action out");
    if (redeems || !result.replayed) return { ...permit, repeated: false };
    // A key that is new to the journal, and that the service knows, is also somebody else's.
    if (first && !mayBeOwnReplay(result) && !providerKey) {
      await this.#journal.add(key, "doubted", { key, check_id: result.check_id, at: now() });
      throw new InDoubt(key, result.check_id, "it was allowed to somebody who asked before and does not write this journal");
    }
    return { ...permit, repeated: false };
  }

  /** again is about what was begun before: only the service can tell more. It is repeated if it began less than so many hours ago. */
  async #again(key: string, began: Line, hours: number): Promise<Asked> {
    const checkId = began.check_id ?? "";
    const result = await this.#client.getCheck(checkId).catch((problem: unknown) => {
      const unreadable = problem instanceof APIError && problem.definite && [403, 404].includes(problem.status); // as when it is archived
      throw unreadable ? new InDoubt(key, checkId, "it was begun, and the service does not show it", problem) : problem;
    });
    if (result.outcome) {
      await this.#journal.add(key, "closed", {
        key,
        check_id: checkId,
        report: { status: result.outcome.status } as OutcomeReport,
      });
      throw reported(result);
    }
    const isRecent = Date.now() - Date.parse(began.at ?? "") < hours * 3_600_000;
    if (!isRecent || result.decision !== "allow")
      throw new InDoubt(key, checkId, "it was begun here or elsewhere, and its end is not known");
    return { check_id: checkId, idempotency_key: key, repeated: true };
  }

  /** decided returns an allow of the service, or throws. */
  async #decided(action: Action, wait: number): Promise<CheckResult> {
    let result = await this.#client.check(action);
    for (let round = 0; result.decision === "escalate" && !result.outcome; round++) {
      const isNew = round > 0 && !result.replayed; // and so undecided
      if (!result.approval_id || (isNew && wait === 0) || round === mostApprovals) throw new ApprovalPending(result);
      const approval = await this.#client[wait > 0 ? "waitForApproval" : "approval"](
        result.approval_id,
        wait > 0 ? { timeout: wait } : {},
      );
      if (approval.status !== "approved" && approval.status !== "used") throw undecided(result, approval);
      result = await this.#client.check({ ...action, approval_id: result.approval_id });
    }
    if (result.outcome) throw reported(result);
    if (result.decision !== "allow") throw new Blocked(result);
    return result;
  }

  /** redeems reports whether this gate's checks are redeemed. */
  async #redeems(): Promise<boolean> {
    if (this.#redeem === undefined) {
      const { role, scopes } = await this.#client.self();
      this.#redeem = role === "gateway" || (scopes ?? []).includes("checks:redeem");
    }
    return this.#redeem;
  }

  /** begin takes the permit: after it the body runs, here and nowhere else. */
  async #begin(action: Action, asked: Asked, { providerKey = false }: CarryOptions<never>): Promise<void> {
    const { check_id, idempotency_key: key, repeated } = asked;
    if (this.#redeem && !repeated) await this.#redeemOnce(action, asked, providerKey);
    const isFirst = await this.#journal.add(key, "began", { key, check_id, at: now() });
    if (!isFirst && !repeated) throw new InDoubt(key, check_id, "another process has begun it");
  }

  async #redeemOnce(action: Action, { check_id, idempotency_key: key }: Asked, providerKey: boolean): Promise<void> {
    const { idempotency_key: _key, approval_id: _approval, ...about } = action;
    const seed = (await this.#journal.read(key)).asked?.seed;
    try {
      await this.#client.redeem(check_id, about, { idempotencyKey: `${seed}-${check_id}` });
    } catch (problem) {
      if (!(problem instanceof APIError) || problem.code !== "check_already_redeemed") throw problem;
      const result = await this.#client.getCheck(check_id);
      if (result.outcome) throw reported(result);
      if (providerKey) return;
      await this.#journal.add(key, "doubted", { key, check_id, at: now() });
      throw new InDoubt(key, check_id, "somebody else redeemed it", problem);
    }
  }

  async #carryOut<R>(asked: Asked, body: (permit: Permit) => R | Promise<R>, options: CarryOptions<R>): Promise<R> {
    const { check_id, idempotency_key: key } = asked;
    let value: R;
    try {
      value = await body({ check_id, idempotency_key: key });
    } catch (problem) {
      if (options.declined?.(problem)) {
        await this.#end(key, check_id, { status: "failed" });
        throw problem;
      }
      if (this.#redeem) await this.#client.reportInDoubt(check_id).catch(() => undefined); // the service finds it out, too, only later
      throw new InDoubt(key, check_id, "what carries it out threw", problem);
    }
    await this.#end(key, check_id, executed(value, options));
    return value;
  }

  /** end writes down how the body ended, and reports it. One of the two is enough to know it later. */
  async #end(key: string, checkId: string, report: OutcomeReport): Promise<void> {
    const line = { key, check_id: checkId, report };
    const problem = await this.#journal.add(key, "ended", line).then(
      () => undefined,
      (problem: unknown) => problem,
    );
    const isReported = await this.#reportEnd({ ended: line });
    if (problem && !isReported)
      throw new InDoubt(key, checkId, `it ended, ${report.status}, which could neither be written down nor reported`, problem);
  }

  /** reportEnd reports what ended and was not reported. It reports whether the service knows it. */
  async #reportEnd({ ended, closed }: Lines): Promise<boolean> {
    if (closed || !ended?.report) return true;
    try {
      await this.#client.reportOutcome(ended.check_id ?? "", ended.report).catch((problem: unknown) => {
        if (!(problem instanceof APIError) || ![400, 422].includes(problem.status)) throw problem;
        const { status } = ended.report as OutcomeReport; // what else the service does not take is left out
        return this.#client.reportOutcome(ended.check_id ?? "", { status });
      });
    } catch (problem) {
      if (!(problem instanceof APIError) || problem.code !== "outcome_already_reported") return false;
    }
    await this.#journal.add(ended.key, "closed", ended).catch(() => false); // else it is reported once more
    return true;
  }

  /** resume reports what ended before a crash and was not reported, and says what is in doubt. Call it when the program starts. */
  async resume(): Promise<Resumed> {
    const resumed: Resumed = { reported: [], unreported: [], in_doubt: [] };
    for (const key of await this.#journal.open()) {
      const lines = await this.#journal.read(key);
      if (this.#running.has(key) || lines.closed) continue;
      if (lines.ended) {
        resumed[(await this.#reportEnd(lines)) ? "reported" : "unreported"].push(key);
        continue;
      }
      const line = (lines.began ?? lines.doubted) as Line;
      try {
        await this.#again(key, line, 0);
      } catch (problem) {
        if (problem instanceof InDoubt) resumed.in_doubt.push({ idempotency_key: key, check_id: line.check_id ?? "" });
        else if (!(problem instanceof AlreadyExecuted || problem instanceof AlreadyReported)) throw problem;
      }
    }
    return resumed;
  }

  /** settle says what became of something in doubt, as a person found out. It reports whether the service knows it already. */
  async settle(idempotencyKey: string, report: OutcomeReport): Promise<boolean> {
    const lines = await this.#journal.read(idempotencyKey);
    const line = lines.began ?? lines.doubted;
    if (!line || lines.ended || lines.closed || this.#running.has(idempotencyKey))
      throw new TypeError("nothing is in doubt under this idempotency key");
    const ended = { ...line, report };
    if (!(await this.#journal.add(idempotencyKey, "ended", ended))) throw new TypeError("it ended just now");
    return this.#reportEnd({ ended });
  }
}

/** What is escalated more often than so under one key waits for a person to look. */
const mostApprovals = 10;

const now = () => new Date().toISOString();

/** over is what became of a key whose end is written down. */
function over({ ended, closed }: Lines): NotCarriedOut {
  const line = (ended ?? closed) as Line;
  const { status, reference = null } = line.report as OutcomeReport;
  const checkId = line.check_id ?? "";
  return status === "executed" ? new AlreadyExecuted(checkId, { status, reference }) : new AlreadyReported(checkId, status);
}

/** reported is what became of a check by its outcome. */
function reported({ check_id, outcome }: CheckResult): NotCarriedOut {
  const status = outcome?.status ?? "unknown";
  return status === "executed" ? new AlreadyExecuted(check_id) : new AlreadyReported(check_id, status);
}

function undecided(result: CheckResult, approval: Approval): NotCarriedOut {
  if (approval.status === "denied") return new Denied(approval);
  return approval.status === "expired" ? new ApprovalExpired(approval) : new ApprovalPending(result, approval);
}

/** executed is the report of a body's value. What the caller's function has wrong keeps nothing from being reported. */
function executed<R>(value: R, { report }: CarryOptions<R>): OutcomeReport {
  try {
    const { amount: moved, reference, note } = report?.(value) ?? {};
    return {
      status: "executed",
      amount: moved === undefined ? undefined : amount(moved),
      reference: reference || undefined,
      note: note || undefined,
    };
  } catch {
    return { status: "executed" };
  }
}

/** canonical is the same text for actions that the service takes for the same under one key. */
function canonical({ idempotency_key: _key, approval_id: _approval, ...action }: Action): string {
  return encode(sorted({ ...action, amount: amount(action.amount), currency: action.currency.toUpperCase() }));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, sorted(member)]));
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
