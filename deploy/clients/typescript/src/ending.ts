import type { Spendgate } from "./client.js";
import { APIError, AlreadyReported, InDoubt, type NotCarriedOut, SpendgateError, Unanswered } from "./errors.js";
import type { Journal, Lines } from "./journal.js";
import { lesser, over, reported } from "./report.js";
import type { CheckResult, OutcomeReport } from "./types.js";

/** What the service knows of an end: it; not yet; or the contrary, which somebody reported before. */
export type Told = "known" | "later" | "contrary";

/** isOver reports whether the end of a key is written down. */
export const isOver = ({ ended, closed }: Lines) => ended !== undefined || closed !== undefined;

/** Ending is what a gate writes down, reports and hears of how bodies ended. */
export class Ending {
  readonly #client: Spendgate;
  readonly #journal: Journal;

  constructor(client: Spendgate, journal: Journal) {
    this.#client = client;
    this.#journal = journal;
  }

  /** read returns what is written down of a key. That it certainly moved nothing is an end. */
  async read(key: string): Promise<Lines> {
    const lines = await this.#journal.read(key);
    return lines.repeated?.report ? { ended: lines.repeated, ...lines } : lines;
  }

  /** overAfterReport is what became of a key whose end is written down, and is reported if it was not. */
  async overAfterReport(lines: Lines): Promise<NotCarriedOut> {
    await this.reportEnd(lines);
    return this.over(lines);
  }

  /** over is what became of a key whose end is written down. That nothing was moved, people may have corrected since. */
  async over(lines: Lines): Promise<NotCarriedOut> {
    const known = over(lines);
    if (!(known instanceof AlreadyReported)) return known;
    const result = await this.#client.getCheck(known.checkId).catch(() => undefined);
    if (result) return result.outcome ? reported(result) : known;
    const later = " That may have been corrected since, and the service cannot say now: call again when it answers.";
    return new AlreadyReported(known.checkId, known.status, later);
  }

  /** record is what the service knows of a check that may have been carried out. It throws what became of that, or that nobody can tell. */
  async record(key: string, checkId: string): Promise<CheckResult> {
    const result = await this.#client.getCheck(checkId).catch((problem: unknown) => {
      const unreadable = problem instanceof APIError && problem.definite && [403, 404].includes(problem.status); // as when it is archived
      if (!unreadable) throw new Unanswered(key, checkId, problem);
      throw new InDoubt(key, checkId, "it was begun, and the service does not show it", problem);
    });
    return this.unlessOver(key, result);
  }

  /** unlessOver throws how a check ended, if it has, and writes it down first: the service forgets whose idempotency key it had. */
  async unlessOver(key: string, result: CheckResult): Promise<CheckResult> {
    if (!result.outcome) return result;
    const report = { status: result.outcome.status } as OutcomeReport;
    await this.#journal.add(key, "closed", { key, check_id: result.check_id, report }).catch(() => false); // it is over all the same
    throw reported(result);
  }

  /** announce has all know that a body is repeated: what carried it out before gives nothing back then. */
  async announce(key: string, { check_id, redemption }: CheckResult, redeems: boolean): Promise<void> {
    if (!redeems) {
      await this.#journal.add(key, "repeated", { key, check_id });
      const lines = await this.read(key);
      if (isOver(lines)) throw await this.overAfterReport(lines);
      return;
    }
    if (redemption?.in_doubt) return;
    try {
      await this.#client.reportInDoubt(check_id);
    } catch (problem) {
      const isRefused = problem instanceof APIError && problem.definite && problem.status !== 429;
      if (!isRefused) throw new Unanswered(key, check_id, problem);
      await this.record(key, check_id); // it has ended meanwhile, or is not this key's to repeat
      throw new InDoubt(key, check_id, "it was begun here or elsewhere, and its end is not known", problem);
    }
  }

  /** giveBack ends what moved nothing, unless another process repeats it meanwhile: then only people know. */
  async giveBack(key: string, checkId: string, report: OutcomeReport, redeemed: boolean, problem?: unknown): Promise<void> {
    const line = { key, check_id: checkId, report };
    let [isMine, refused] = [true, problem];
    try {
      if (redeemed) await this.#client.reportOutcome(checkId, { ...report, unless_in_doubt: true });
      else isMine = await this.#journal.add(key, "repeated", line);
    } catch (refusal) {
      [isMine, refused] = [false, problem ?? refusal];
    }
    if (!isMine) throw new InDoubt(key, checkId, `it ended, ${report.status}, and another process may repeat it`, refused);
    if (redeemed) await this.#journal.add(key, "closed", line).catch(() => false); // the service knows it
    else await this.end(key, checkId, report, problem);
  }

  /** end writes down how the body ended, and reports it. One of the two is enough to know it later. */
  async end(key: string, checkId: string, report: OutcomeReport, thrown?: unknown): Promise<void> {
    const line = { key, check_id: checkId, report };
    const problem = await this.#journal.add(key, "ended", line).then(
      () => undefined,
      (problem: unknown) => problem,
    );
    const told = await this.reportEnd({ ended: line });
    if (told === "contrary")
      throw new InDoubt(key, checkId, `it ended, ${report.status}, and the contrary is on record, which people correct`, thrown);
    if (problem && told === "later")
      throw new InDoubt(key, checkId, `it ended, ${report.status}, which could neither be written down nor reported`, problem);
  }

  /** reportEnd reports what ended and was not reported. What was executed, and is on record as not, stays unreported. */
  async reportEnd({ ended, closed }: Lines): Promise<Told> {
    if (closed || !ended?.report) return "known";
    let told: Told = "later";
    const isExecuted = ended.report.status === "executed";
    for (const report of lesser(ended.report)) {
      try {
        await this.#client.reportOutcome(ended.check_id ?? "", report);
        told = "known";
      } catch (problem) {
        if (problem instanceof APIError && problem.code === "outcome_already_reported")
          told = problem.latest && (problem.latest.status === "executed") !== isExecuted ? "contrary" : "known";
        // What the service does not take, or cannot be sent, is left out.
        const isRefused = problem instanceof APIError ? [400, 422].includes(problem.status) : !(problem instanceof SpendgateError);
        if (told === "later" && !isRefused) return told;
      }
      if (told !== "later") break;
    }
    if (told === "later" || (told === "contrary" && isExecuted)) return told;
    await this.#journal.add(ended.key, "closed", ended).catch(() => false); // else it is reported once more
    return told;
  }
}
