import { amount } from "./amount.js";
import type { Spendgate } from "./client.js";
import { APIError, InDoubt, SpendgateError } from "./errors.js";
import type { OutcomeReport } from "./types.js";

type Told = Omit<OutcomeReport, "status" | "supersedes" | "redemption_id">;

/** What a call holds: the redemption under which its body runs. */
interface Held {
  payment_key: string;
  check_id: string;
  redemption_id: string;
}

/** Reports says how bodies ended. What cannot be delivered is repeated in the background. */
export class Reports {
  readonly #client: Spendgate;
  readonly #tell: (message: string, problem: unknown) => void;
  readonly #open = new Set<Promise<void>>();

  constructor(client: Spendgate, tell: (message: string, problem: unknown) => void) {
    this.#client = client;
    this.#tell = tell;
  }

  async delivered(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open);
  }

  /** executed reports that a body made the payment, and returns the reference. The body's value says what was moved. */
  async executed<R>(held: Held, value: R, report: ((value: R) => Told) | undefined): Promise<string | null> {
    let told: Told = {};
    try {
      told = report ? report(value) : { reference: value as string };
    } catch {
      // The money was moved in any case.
    }
    const kept = reportable(told);
    await this.#end(held, { status: "executed", ...kept });
    return kept.reference ?? null;
  }

  /** returned reports that nothing was moved. */
  async returned(held: Held, status: "failed" | "voided", cause?: unknown): Promise<void> {
    await this.#end(held, { status }, cause);
  }

  /** doubt says that nobody knows how a body ended, and throws that. Without this report the service finds out later. */
  async doubt({ payment_key, check_id, redemption_id }: Held, why: string, cause?: unknown): Promise<never> {
    await this.#client.reportInDoubt(check_id, { redemption_id }).catch(() => undefined);
    throw new InDoubt(payment_key, check_id, why, cause);
  }

  /** end reports, now or later. It throws InDoubt if the service does not take the report. */
  async #end(held: Held, report: OutcomeReport, cause?: unknown): Promise<void> {
    const problem = await this.#report(held, report, cause);
    if (!problem) return;
    const repeating = this.#repeat(held, report).finally(() => this.#open.delete(repeating));
    this.#open.add(repeating);
    this.#say(`the report that ${held.payment_key} is ${report.status} was not delivered, and is repeated`, problem);
  }

  #say(message: string, problem: unknown): void {
    try {
      this.#tell(message, problem);
    } catch {
      // The money was moved in any case.
    }
  }

  async #repeat(held: Held, report: OutcomeReport): Promise<void> {
    try {
      let wait = 1_000;
      do {
        await this.#client.pause(wait);
        wait = Math.min(2 * wait, 60_000);
      } while (await this.#report(held, report));
    } catch (problem) {
      this.#say((problem as Error).message, problem);
    }
  }

  /** report returns why a report could not be delivered, if so. It throws InDoubt if it was refused. */
  async #report({ payment_key, check_id, redemption_id }: Held, report: OutcomeReport, cause?: unknown): Promise<unknown> {
    for (let sent: OutcomeReport = { ...report, redemption_id }; ; ) {
      try {
        await this.#client.reportOutcome(check_id, sent);
        return undefined;
      } catch (problem) {
        const isRefusal = problem instanceof APIError && problem.definite && problem.status !== 429;
        if (!isRefusal && problem instanceof SpendgateError) return problem;
        const { latest, status: code = 0 } = problem as Partial<APIError>;
        if (latest && latest.check_id !== check_id) return problem; // the answer is to another request
        const { status, supersedes } = sent;
        if (latest && (latest.status === "executed") === (status === "executed")) return undefined; // the record has it
        // The money was moved, whatever was reported before.
        if (latest && status === "executed" && latest.report !== supersedes) sent = { ...sent, supersedes: latest.report };
        else if ([400, 422].includes(code) && (sent.amount ?? sent.reference ?? sent.note) !== undefined)
          sent = { status, redemption_id, supersedes };
        else
          throw new InDoubt(
            payment_key, check_id, `it ended, ${status}, and the record does not take that: ${(problem as Error).message}`, cause ?? problem,
          );
      }
    }
  }
}

/** reportable returns the valid parts of a report. It leaves out texts that are too long or not Unicode, and invalid amounts. */
function reportable({ amount: moved, reference, note }: Told): Told {
  const kept: Told = {};
  try {
    if (moved !== undefined && moved !== null) kept.amount = amount(moved);
  } catch {
    // An invalid amount is left out.
  }
  const [referred, noted] = [text(reference, 256), text(note, 4096)];
  if (referred) kept.reference = referred;
  if (noted) kept.note = noted;
  return kept;
}

function text(value: unknown, most: number): string | undefined {
  if (!["string", "number", "bigint"].includes(typeof value)) return undefined;
  const text = String(value);
  return [...text].length <= most && !/[\0\p{Cs}]/u.test(text) ? text : undefined;
}
