import { type Spendgate, newKey } from "./client.js";
import {
  APIError, ApprovalExpired, ApprovalPending, BadKey, Blocked, ActionChanged, Denied, Escalated, InDoubt, NoAnswer, NoDecision, SpendgateError,
  Unanswered,
} from "./errors.js";
import type { CarryOptions, Ended, GateOptions, Guarded, GuardedAction, Permit, Plan, Reference } from "./guard-types.js";
import { type Meant, hasGap, meaning } from "./meaning.js";
import { Reports } from "./report.js";
import type { CheckResult, Payment } from "./types.js";

/** An answer about a payment. */
type Answer = CheckResult & { payment: Payment };

/**
 * Gate runs a body that moves money only on a complete 200 whose body says `proceed: true` for this call, and reports how it
 * ended. A payment is made at most once, whatever is killed: what became of it is in the service. Except for errors that
 * failedOn is told of, it throws a SpendgateError; a NotCarriedOut says why the body did not run or why its end is unknown.
 */
export class Gate {
  readonly #client: Spendgate;
  readonly #defaults: object;
  readonly #reports: Reports;

  constructor({ client, defaults = {}, onUnreported = (message) => console.warn(message) }: GateOptions) {
    this.#client = client;
    this.#defaults = defaults;
    this.#reports = new Reports(client, onUnreported);
  }

  /** guard returns a function that carries out `body` as `check` does. */
  guard<I, R>(plan: Plan<I>, body: (input: I, permit: Permit) => R | Promise<R>, options: CarryOptions<R> = {}): Guarded<I, R> {
    requireBody(body, 2, options);
    const action = (input: I) => {
      const members = Object.entries(plan).map(([name, member]) => [name, typeof member === "function" ? member(input) : member]);
      const made = Object.fromEntries(members) as GuardedAction;
      if (typeof plan.payment_key === "function" && hasGap(plan.payment_key, input)) throw new BadKey(made.payment_key);
      return made;
    };
    const run = async (input: I) => this.#run(() => action(input), (permit) => body(input, permit), options);
    const guarded = async (input: I) => valueOf(await run(input));
    return Object.assign(guarded, { run, pending: async (input: I) => this.pending(action(input)) });
  }

  /**
   * check asks whether a payment may be made. If so, it runs the body once, reports how that ended and returns its value.
   * Of a payment that was made before it returns the recorded reference.
   */
  async check<R>(
    action: GuardedAction,
    body: (permit: Permit) => R | Promise<R>,
    options: CarryOptions<R> = {},
  ): Promise<R | Reference> {
    requireBody(body, 1, options);
    return valueOf(await this.#run(() => action, body, options));
  }

  /** pending asks the service, and returns whether the payment waits for people. Nothing is redeemed. */
  async pending(action: GuardedAction): Promise<boolean> {
    const { payment } = await this.#client.check(meaning(this.#defaults, () => action).action);
    return payment?.state === "waiting";
  }

  /** reported returns when all reports were delivered, also those that are repeated in the background. */
  reported(): Promise<void> {
    return this.#reports.delivered();
  }

  async #run<R>(make: () => GuardedAction, body: (permit: Permit) => R | Promise<R>, options: CarryOptions<R>): Promise<Ended<R>> {
    const meant = meaning(this.#defaults, make);
    const { check_id, payment } = await this.#ask(meant, options);
    if (!payment.proceed) return { state: "executed", isNew: false, reference: payment.reference };
    const { payment_key } = meant.action;
    const held = { payment_key, check_id, redemption_id: payment.redemption_id as string };
    const reports = this.#reports;
    if (!meant.isSame()) {
      // What may have been taken over may have been carried out by its former holder.
      if (options.takeOver) return reports.doubt(held, "its arguments changed after it was redeemed");
      await reports.returned(held, "voided");
      throw new ActionChanged(payment_key, check_id);
    }
    let value: R;
    try {
      value = await body({ payment_key, check_id, execution_id: payment.execution_id as string }); // no await since the comparison
    } catch (problem) {
      if (problem instanceof InDoubt || !isTrue(options.failedOn, problem)) return reports.doubt(held, "what carries it out threw", problem);
      await reports.returned(held, "failed", problem);
      return { state: "failed", isNew: true, problem, reference: null };
    }
    if (isUnfinished(value)) return reports.doubt(held, "what carries it out returned a generator, which runs after its call");
    if (!options.failedIf && looksFailed(value)) return reports.doubt(held, "what carries it out returned what looks like an error", value);
    let failed: unknown;
    try {
      failed = options.failedIf?.(value);
    } catch (problem) {
      return reports.doubt(held, "failedIf threw", problem);
    }
    if (failed instanceof Promise) return reports.doubt(held, "failedIf returned a promise", value);
    if (failed !== true)
      return { state: "executed", isNew: true, value, reference: await reports.executed(held, value, options.report) };
    await reports.returned(held, "failed", value);
    return { state: "failed", isNew: true, value, reference: null };
  }

  /** ask asks until the body may run, or the payment was made before. Otherwise it throws. */
  async #ask(meant: Meant, { takeOver, takeOverHours, wait = 0, unanswered: persist = 60_000 }: CarryOptions<never>): Promise<Answer> {
    const key = meant.action.payment_key;
    const nonce = newKey("");
    const hours = takeOverHours === undefined ? {} : { take_over_within_hours: takeOverHours };
    const action = { ...meant.action, redeem: nonce, ...(takeOver ? { take_over: true, ...hours } : {}) };
    const began = performance.now();
    let releasing = 0;
    for (;;) {
      const [asked, clock] = [performance.now(), Date.now()]; // the answers before showed that this call had redeemed nothing
      const rest = began + wait - asked;
      const answer = (await this.#client.check(action, { persist, wait: rest }).catch((problem: unknown) => {
        throw withoutAnswer(key, problem);
      })) as Answer;
      const { state, proceed, nonce: given } = answer.payment;
      if (proceed && given !== nonce) throw new Unanswered(key, new NoAnswer("the answer permits another call"));
      const age = Math.max(performance.now() - asked, Date.now() - clock); // one clock stands still while a machine sleeps
      if (proceed && age > latest)
        throw new InDoubt(key, answer.check_id, "the permission came too late, and this call began nothing");
      if (proceed || state === "executed") return answer;
      const isAwaited = state === "waiting" && answer.decision !== "block" && began + wait - performance.now() >= 1_000;
      if (!isAwaited && !(state === "releasing" && releasing++ < 5)) throw refusal(key, answer);
      // The service holds its answer for some time. An answer that came at once is not asked for at once again.
      await this.#client.pause(Math.max(0, 1_000 - (performance.now() - asked)));
    }
  }
}

/** How late an answer may be: well below the 15 minutes after which others find out, and decide, what became of a payment. */
const latest = 600_000;

/** valueOf returns or throws what a guarded function does. */
function valueOf<R>(ended: Ended<R>): R | Reference {
  if ("problem" in ended) throw ended.problem;
  return ended.isNew ? (ended.value as R) : ended.reference;
}

/** withoutAnswer returns what is thrown where the service gave no answer about the payment: its refusal, or that there is none. */
function withoutAnswer(key: string, problem: unknown): unknown {
  const cause = problem instanceof NoDecision ? problem.cause : problem;
  const isRefusal = cause instanceof APIError && cause.definite && cause.status !== 429;
  return isRefusal || !(cause instanceof SpendgateError) ? cause : new Unanswered(key, cause);
}

/** refusal returns why an answer without `proceed` permits nothing. */
function refusal(key: string, answer: Answer): SpendgateError {
  const { payment: { state, redeemed_at: at }, decision, check_id } = answer;
  if (state === "redeemed") {
    const why = `another call began it (redeemed_at: ${at}) and may still be carrying it out. Report nothing about it, and call again later.`;
    return new InDoubt(key, check_id, "", undefined, `${key} is in progress: ${why}`, true);
  }
  if (state === "in_doubt") return new InDoubt(key, check_id, "a call began it, and nobody has reported how it ended");
  if (state === "releasing") return new InDoubt(key, check_id, "an attempt was given back, and is not released yet");
  if (decision === "block" && (state === "free" || state === "waiting")) return new Blocked(answer); // waiting: an approval of it is unused
  if (state === "waiting") return new ApprovalPending(answer);
  if (state === "denied") return new Denied(answer);
  if (state === "escalated") return new Escalated(answer);
  if (state === "free" && decision === "escalate") return new ApprovalExpired(answer);
  return new Unanswered(key, new NoAnswer(`the payment is ${state}, and this call may not make it`));
}

/**
 * requireBody throws unless a body is a function that has ended when it, or the promise of it, returns, and that takes the permit,
 * which is the last of its parameters, if its provider is said to take execution_id.
 */
function requireBody(body: (...args: never[]) => unknown, parameters: number, { takeOver }: { takeOver?: boolean }): void {
  if (typeof body !== "function") throw new TypeError("the guard runs what carries the action out: give it a function that does");
  if (isUnfinished(body)) throw new TypeError("a generator runs after its call: it cannot be guarded");
  if (!takeOver || body.length >= parameters) return;
  const wanted = parameters === 1 ? "({ execution_id }) => ..." : "(input, { execution_id }) => ...";
  throw new TypeError(`takeOver says that the provider is given execution_id as its idempotency key, which this body does not take: ${wanted}`);
}

/** isUnfinished reports whether a value is a generator, whose code runs only after it was returned, or a function of one. */
function isUnfinished(value: unknown): boolean {
  return /Generator/.test(Object.prototype.toString.call(value));
}

/** isTrue reports whether a function of the caller returns true. A promise does not count, nor does one that throws. */
function isTrue<V>(test: ((value: V) => boolean) | undefined, value: V): boolean {
  try {
    return test?.(value) === true;
  } catch {
    return false;
  }
}

/** looksFailed reports whether a value of a body looks like an error that it caught. */
function looksFailed(value: unknown): boolean {
  if (value instanceof Error) return true;
  if (typeof value === "string") return /^\s*(error|failed)/i.test(value);
  const { isError, is_error, error, ok, status } = Object(value) as Record<string, unknown>; // of MCP, fetch and LangChain, too
  return isError === true || is_error === true || Boolean(error) || ok === false || status === "error";
}
