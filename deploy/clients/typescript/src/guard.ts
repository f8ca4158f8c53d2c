import { type Spendgate, newIdempotencyKey } from "./client.js";
import {
  APIError,
  AlreadyExecuted,
  AlreadyReported,
  ApprovalExpired,
  ApprovalPending,
  BadKey,
  Blocked,
  Denied,
  InDoubt,
  KeyReused,
  type NotCarriedOut,
  RedemptionRequired,
  Running,
  SpendgateError,
  Unanswered,
} from "./errors.js";
import { Ending, isOver } from "./ending.js";
import type { CarryOptions, GateOptions, Guarded, GuardedAction, Permit, Plan, Resumed } from "./guard-types.js";
import { hash } from "./hash.js";
import { type Journal, type Line, type Lines, memoryJournal } from "./journal.js";
import { type Meant, meaning } from "./meaning.js";
import { isUnfinished, ofValue, reportable, requireBody, requirePermit } from "./report.js";
import type { Action, Approval, CheckResult, Key, OutcomeReport } from "./types.js";

interface Asked extends Permit {
  /** The journal says already that the body began, so nothing is redeemed or begun again. */
  begun: boolean;
  /** If set, the body may have run before under the same check_id, from this time on. */
  since?: string | undefined;
  isAllowed: boolean;
  /** Why the action is in doubt, as far as is known here, such as a replay of somebody else's check. */
  doubt?: string;
  /** The earliest time at which the body of the check can have begun. */
  earliest?: string;
}

/**
 * Gate runs a body that moves money only after a complete 200 allow without an outcome, at most
 * once per idempotency key even if processes are killed, and reports how it ended. Except for the
 * body's own errors, it throws a SpendgateError; a NotCarriedOut says why the body did not run.
 */
export class Gate {
  readonly #client: Spendgate;
  readonly #journal: Journal;
  readonly #ending: Ending;
  readonly #hasJournal: boolean;
  readonly #defaults: Partial<Action>;
  readonly #running = new Set<string>();
  #redeem: boolean | undefined;
  #own: Key | undefined; // the record of the API key, once it was read
  readonly #elsewhere: boolean; // the bodies' payment provider redeems

  constructor({ client, journal, defaults = {}, redeem }: GateOptions) {
    if (!journal && redeem === false) throw new TypeError(needsJournal);
    this.#client = client;
    this.#hasJournal = journal !== undefined;
    this.#journal = journal ?? memoryJournal();
    this.#ending = new Ending(client, this.#journal);
    this.#defaults = defaults;
    this.#redeem = redeem;
    this.#elsewhere = redeem === false;
  }

  /** guard returns a function that carries out `body` as `check` does. */
  guard<I, R>(plan: Plan<I>, body: (input: I, permit: Permit) => R | Promise<R>, options: CarryOptions<R> = {}): Guarded<I, R> {
    requireBody(body);
    requirePermit(body, 2, options);
    const action = (input: I) => {
      const members = Object.entries(plan).map(([name, member]) => [
        name === "key" ? "idempotency_key" : name,
        typeof member === "function" ? member(input) : member,
      ]);
      return Object.fromEntries(members) as GuardedAction;
    };
    const guarded = async (input: I) => this.#run(() => action(input), (permit) => body(input, permit), options);
    return Object.assign(guarded, { pending: async (input: I) => this.pending(action(input)) });
  }

  /** check asks whether the action may be carried out. If so, it runs the body once and reports how it ended. */
  async check<R>(action: GuardedAction, body: (permit: Permit) => R | Promise<R>, options: CarryOptions<R> = {}): Promise<R> {
    requireBody(body);
    requirePermit(body, 1, options);
    return this.#run(() => action, body, options);
  }

  async #run<R>(make: () => GuardedAction, body: (permit: Permit) => R | Promise<R>, options: CarryOptions<R>): Promise<R> {
    requireBody(body);
    const meant = meaning(this.#defaults, make);
    const key = meant.action.idempotency_key;
    if (this.#running.has(key)) throw new Running(key);
    this.#running.add(key);
    try {
      const asked = await this.#begin(meant, await this.#ask(meant, options), options);
      const seen = difference(meant); // no await between this comparison and the body
      if (seen) return await this.#refuse(asked, seen, options);
      return await this.#carryOut(asked, body, options);
    } finally {
      this.#running.delete(key);
    }
  }

  /** pending asks the service, and returns the approval that the action waits for, if any. It never records a doubt. */
  async pending(action: GuardedAction): Promise<ApprovalPending | undefined> {
    try {
      const { idempotency_key: key, check_id, begun, isAllowed } = await this.#ask(meaning(this.#defaults, () => action), {});
      // With this line a later call knows that a replay of the check is its own.
      if (isAllowed && !begun) await this.#journal.add(key, "allowed", { key, check_id });
    } catch (problem) {
      if (problem instanceof ApprovalPending) return problem;
      if (!(problem instanceof SpendgateError)) throw problem;
    }
    return undefined;
  }

  /** ask returns the permit for an action, or throws why there is none. It does not begin anything yet, and records no doubt. */
  async #ask(
    { action, text, isNameless }: Meant,
    { providerKey = false, providerKeyHours = 24, wait = 0 }: CarryOptions<never>,
  ): Promise<Asked> {
    const key = action.idempotency_key;
    if (!this.#hasJournal) await this.#remembered();
    const actionHash = await hash(text);
    let lines = await this.#ending.read(key);
    if (!lines.asked) {
      if (isNameless) throw new BadKey(key); // a key that the journal has already may go on
      await this.#journal.add(key, "asked", { key, action: actionHash, seed: newIdempotencyKey() });
      lines = await this.#ending.read(key);
    }
    if (actionOf(lines, actionHash) !== actionHash) throw new KeyReused(key);
    if (isOver(lines)) throw await this.#ending.overAfterReport(lines);
    const before = lines.began ?? lines.doubted;
    if (before) return this.#again(key, before, lines.began && providerKey ? providerKeyHours : 0);
    const redeems = await this.#redeems();
    const result = await this.#decided(action, wait, lines.asked?.seed);
    const permit = { check_id: result.check_id, idempotency_key: key, begun: false, isAllowed: false, earliest: earliest(result) };
    if (result.redemption && !redeems) return { ...permit, doubt: "somebody redeemed the check to carry the action out" };
    if (result.redeem_required && !redeems && !this.#elsewhere) throw new RedemptionRequired(result);
    const isAllowed = result.first;
    if (redeems || isAllowed || lines.allowed?.check_id === result.check_id) return { ...permit, isAllowed };
    // A replay belongs to a process with another journal, unless this journal knows the check as its own.
    if (providerKey && providerKeyHours >= 24) return { ...permit, since: permit.earliest };
    return { ...permit, doubt: "the service had allowed it before, to a process with another journal, or in an answer that was lost" };
  }

  /** again handles a body that was begun before: only the service can tell more. It may be repeated for this many hours after it began. */
  async #again(key: string, began: Line, hours: number): Promise<Asked> {
    const checkId = began.check_id ?? "";
    const result = await this.#ending.record(key, checkId);
    // This machine's clock may be wrong, or may have been when the body began.
    const age = Math.max(Date.now() - Date.parse(began.at ?? ""), result.age_ms ?? 0);
    if (!(hours > 0 && age < hours * 3_600_000) || result.decision !== "allow")
      throw new InDoubt(key, checkId, "it was begun here or elsewhere, and its end is not known");
    await this.#ending.announce(key, result, await this.#redeems());
    return { check_id: checkId, idempotency_key: key, begun: true, since: began.at, isAllowed: false };
  }

  /** decided returns an allow of the service, or throws. */
  async #decided(action: Action & { idempotency_key: string }, wait: number, seed: string | undefined): Promise<CheckResult> {
    const nonce = seed === undefined ? {} : { nonce: seed };
    let result = await this.#client.check(action, nonce).catch(async (problem: unknown) => {
      // The service refused to judge the action, so the key is not bound to it yet: the next attempt may correct it.
      const isJudged = !(problem instanceof APIError) || problem.status === 429;
      if (!isJudged) await this.#journal.add(action.idempotency_key, "refused", { key: action.idempotency_key }).catch(() => false);
      throw problem;
    });
    for (let round = 0; result.decision === "escalate" && !result.outcome; round++) {
      const isNew = round > 0 && !result.replayed; // nobody has decided about it yet
      if (!result.approval_id || (isNew && wait === 0) || round === mostApprovals) throw new ApprovalPending(result);
      const approval = await this.#client[wait > 0 ? "waitForApproval" : "approval"](
        result.approval_id,
        wait > 0 ? { timeout: wait } : {},
      );
      if (approval.status !== "approved" && approval.status !== "used") throw undecided(result, approval);
      result = await this.#client.check({ ...action, approval_id: result.approval_id }, nonce);
    }
    await this.#ending.unlessOver(action.idempotency_key, result);
    if (result.decision !== "allow") throw new Blocked(result);
    return result;
  }

  /** redeems reports whether this gate's checks are redeemed. */
  async #redeems(): Promise<boolean> {
    if (this.#redeem === undefined) {
      this.#own ??= await this.#client.self();
      const { role, scopes } = this.#own;
      this.#redeem = role === "gateway" || (scopes ?? []).includes("checks:redeem");
    }
    return this.#redeem;
  }

  /** remembered throws unless the service remembers what a gate without a journal carried out, even after its API key was replaced. */
  async #remembered(): Promise<void> {
    if (!(await this.#redeems())) throw new TypeError(needsJournal);
    this.#own ??= await this.#client.self();
    if (!this.#own.principal) throw new TypeError(needsPrincipal);
  }

  /** begin takes the permit. After it the body runs here and nowhere else. */
  async #begin(meant: Meant, asked: Asked, options: CarryOptions<never>): Promise<Asked> {
    const { check_id, idempotency_key: key, doubt } = asked;
    if (asked.begun) return asked;
    if (doubt !== undefined) {
      await this.#journal.add(key, "doubted", { key, check_id });
      throw new InDoubt(key, check_id, doubt);
    }
    const since = this.#redeem ? await this.#redeemOnce(meant.action, asked, options) : asked.since;
    await this.#unlessTold(asked);
    const seen = difference(meant);
    if (typeof seen === "object") {
      if (isRepeated({ ...asked, since })) throw new InDoubt(key, check_id, changed, seen.thrown);
      if (asked.isAllowed) await this.#journal.add(key, "allowed", { key, check_id }); // the next call continues with it
      throw seen.thrown;
    }
    const line = { key, check_id, at: since ?? now(), action: await hash(meant.text) };
    if (await this.#journal.add(key, "began", line)) return { ...asked, since };
    const lines = await this.#ending.read(key);
    throw isOver(lines) ? await this.#ending.overAfterReport(lines) : new InDoubt(key, check_id, "another process has begun it");
  }

  /** unlessTold throws if the journal learnt meanwhile how the key ended, or of a doubt. A new check that was made for it is given back. */
  async #unlessTold({ check_id, idempotency_key: key, isAllowed }: Asked): Promise<void> {
    const lines = await this.#ending.read(key);
    const told = lines.closed ?? lines.doubted;
    if (!told || (!lines.closed && told.check_id === check_id)) return;
    if (isAllowed && told.check_id !== check_id) {
      const note = `the action is that of ${told.check_id}`;
      await this.#client.reportOutcome(check_id, { status: "voided", note }).catch(() => undefined);
    }
    throw lines.closed ? await this.#ending.over(lines) : new InDoubt(key, told.check_id ?? "", "another process doubts it");
  }

  /** redeemOnce redeems a check. If it was redeemed before and the body is repeated, it returns since when the body may have run. */
  async #redeemOnce(
    action: Action,
    { check_id, idempotency_key: key, earliest: at }: Asked,
    { providerKey = false, providerKeyHours = 24 }: CarryOptions<never>,
  ): Promise<string | undefined> {
    const { idempotency_key: _key, approval_id: _approval, ...about } = action;
    const seed = (await this.#ending.read(key)).asked?.seed;
    const line = { key, check_id, ...(at === undefined ? {} : { at }) };
    try {
      await this.#client.redeem(check_id, about, { idempotencyKey: `${seed}-${check_id}` });
      return undefined;
    } catch (problem) {
      const code = problem instanceof APIError ? problem.code : "";
      if (code === "check_released") await this.#journal.add(key, "doubted", line);
      if (code !== "check_already_redeemed") throw problem;
      const repeats = providerKey && providerKeyHours >= 24;
      if (!repeats) await this.#journal.add(key, "doubted", line);
      const again = async () => {
        const result = await this.#ending.record(key, check_id);
        if (repeats) await this.#ending.announce(key, result, await this.#redeems());
      };
      await again().catch(async (told: unknown) => {
        if (repeats && told instanceof InDoubt) await this.#journal.add(key, "began", line);
        throw told;
      });
      if (repeats) return at;
      throw new InDoubt(key, check_id, "somebody else redeemed it", problem);
    }
  }

  /** refuse throws because the action is no longer the one that was allowed, or its functions threw. The body does not run. */
  async #refuse(asked: Asked, seen: Difference, options: CarryOptions<never>): Promise<never> {
    const { check_id, idempotency_key: key } = asked;
    const thrown = seen === "another" ? undefined : seen;
    if (isRepeated(asked)) throw new InDoubt(key, check_id, changed, thrown?.thrown);
    const happened = thrown ? "the plan's functions threw" : "the action changed";
    const why = `${happened} after it was allowed under ${check_id}: it was not carried out`;
    // If the functions threw and the provider takes a key, the check is kept: the next call repeats it.
    if (!thrown || !options.providerKey) await this.#giveBack(asked, { status: "voided", note: why }, options, thrown?.thrown);
    throw thrown ? thrown.thrown : new KeyReused(key, why);
  }

  /** giveBack ends a check whose body moved nothing. If the provider takes a key, another process may be repeating the body. */
  #giveBack({ check_id, idempotency_key: key }: Asked, report: OutcomeReport, options: CarryOptions<never>, problem?: unknown) {
    if (!options.providerKey) return this.#ending.end(key, check_id, report, problem);
    return this.#ending.giveBack(key, check_id, report, this.#redeem === true, problem);
  }

  async #carryOut<R>(asked: Asked, body: (permit: Permit) => R | Promise<R>, options: CarryOptions<R>): Promise<R> {
    const { check_id, idempotency_key: key } = asked;
    let value: R;
    try {
      value = await body({ check_id, idempotency_key: key });
    } catch (problem) {
      // An error of a repeated body does not show that nothing was moved the first time.
      if (!isRepeated(asked) && isDeclined(problem, options)) {
        await this.#giveBack(asked, { status: "failed" }, options, problem);
        throw problem;
      }
      return this.#doubt(asked, "what carries it out threw", problem);
    }
    if (isUnfinished(value)) return this.#doubt(asked, "what carries it out returned a generator, which runs after its call");
    await this.#ending.end(key, check_id, ofValue(value, options.report));
    return value;
  }

  /** doubt throws InDoubt, after it has told the service, which would otherwise find out only later. */
  async #doubt(asked: Asked, why: string, problem?: unknown): Promise<never> {
    const { check_id, idempotency_key: key } = asked;
    const knows = isRepeated(asked) || !(await this.#redeems().catch(() => false));
    if (!knows) await this.#client.reportInDoubt(check_id).catch(() => undefined);
    throw new InDoubt(key, check_id, why, problem);
  }

  /** resume reports bodies that ended before a crash without a report, and returns what is in doubt. Call it when the program starts. */
  async resume(): Promise<Resumed> {
    if (!this.#hasJournal) await this.#remembered();
    const resumed: Resumed = { reported: [], unreported: [], in_doubt: [] };
    for (const key of await this.#journal.open()) {
      const lines = await this.#ending.read(key);
      if (this.#running.has(key) || lines.closed) continue;
      if (lines.ended) {
        const told = await this.#ending.reportEnd(lines);
        const { check_id = "", report } = lines.ended;
        if (told === "contrary" && report?.status === "executed") resumed.in_doubt.push({ idempotency_key: key, check_id });
        else resumed[told === "later" ? "unreported" : "reported"].push(key);
        continue;
      }
      const line = (lines.began ?? lines.doubted) as Line;
      try {
        await this.#again(key, line, 0);
      } catch (problem) {
        if (problem instanceof Unanswered) throw problem.cause;
        if (problem instanceof InDoubt) resumed.in_doubt.push({ idempotency_key: key, check_id: line.check_id ?? "" });
        else if (!(problem instanceof AlreadyExecuted || problem instanceof AlreadyReported)) throw problem;
      }
    }
    return resumed;
  }

  /** settle reports the end of an action in doubt, as a person found it out. It returns whether the service has the report now. */
  async settle(idempotencyKey: string, report: OutcomeReport): Promise<boolean> {
    const lines = await this.#ending.read(idempotencyKey);
    const line = lines.began ?? lines.doubted;
    if (!line || lines.ended || lines.closed || this.#running.has(idempotencyKey))
      throw new TypeError("nothing is in doubt under this idempotency key");
    if (!["executed", "failed", "voided"].includes(report.status)) throw new TypeError("an outcome is executed, failed or voided");
    const ended = { ...line, report: { status: report.status, ...reportable(report) } };
    if (!(await this.#journal.add(idempotencyKey, "ended", ended))) throw new TypeError("it ended just now");
    return (await this.#ending.reportEnd({ ended })) === "known";
  }
}

/** The maximum number of approvals under one key. After that a person has to look. */
const mostApprovals = 10;

type Difference = "another" | { thrown: unknown };

/** difference reports whether the input makes another action now than at first, or a function of the plan throws. */
function difference(meant: Meant): Difference | undefined {
  try {
    return meant.isSame() ? undefined : "another";
  } catch (thrown) {
    return { thrown };
  }
}

const isRepeated = ({ begun, since }: Asked) => begun || since !== undefined;

const changed = "it has begun before, and its action changed since";

const now = () => new Date().toISOString();

/** actionOf returns the action that a key is bound to. If the service refused to judge it and nothing began, it is the given one. */
function actionOf({ asked, refused, began }: Lines, given: string): string | undefined {
  return began?.action ?? (refused && !began ? given : asked?.action);
}

/** earliest returns the earliest time at which the body of a check that was allowed before can have begun. */
function earliest({ timestamp }: CheckResult): string {
  const at = Date.parse(timestamp);
  return new Date(at < Date.now() ? at : Date.now()).toISOString();
}

const needsJournal = "a gate whose key does not redeem needs a journal";
const needsPrincipal =
  "without a principal the service forgets with this API key what was carried out: give the key a principal, the same as that of the " +
  "key that replaces it, or the gate a journal";

function isDeclined(problem: unknown, { declined }: CarryOptions<never>): boolean {
  if (problem instanceof InDoubt) return false; // thrown by a guard inside the body
  try {
    return declined?.(problem) === true; // a promise does not count
  } catch {
    return false;
  }
}

function undecided(result: CheckResult, approval: Approval): NotCarriedOut {
  if (approval.status === "denied") return new Denied(approval);
  return approval.status === "expired" ? new ApprovalExpired(approval) : new ApprovalPending(result, approval);
}
