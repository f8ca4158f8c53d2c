import type { Spendgate } from "./client.js";
import { APIError, AlreadyReported, InDoubt, type NotCarriedOut, SpendgateError, Unanswered } from "./errors.js";
import type { Journal, Lines } from "./journal.js";
import { lesser, over, reported } from "./report.js";
import type { CheckResult, OutcomeReport } from "./types.js";

/** What the service knows about an end: the end; not yet, so report later; or the contrary, which somebody reported before. */
export type Told = "known" | "later" | "contrary";

/** isOver reports whether the journal has an end for a key. */
export const isOver = ({ ended, closed }: Lines) => ended !== undefined || closed !== undefined;

/** Ending records how bodies ended, in the journal and in the service, and reads it. */
export class Ending {
  readonly #client: Spendgate;
  readonly #journal: Journal;

  constructor(client: Spendgate, journal: Journal) {
    this.#client = client;
    this.#journal = journal;
  }

  /** read returns the journal's lines of a key. A repeated line with a report that nothing was moved counts as an end. */
  async read(key: string): Promise<Lines> {
    const lines = await this.#journal.read(key);
    return lines.repeated?.report ? { ended: lines.repeated, ...lines } : lines;
  }

  /** overAfterReport is like over, but first reports the end if it was not reported. */
  async overAfterReport(lines: Lines): Promise<NotCarriedOut> {
    await this.reportEnd(lines);
    return this.over(lines);
  }

  /** over returns what became of a key whose end is in the journal. People may have corrected an end that moved nothing. */
  async over(lines: Lines): Promise<NotCarriedOut> {
    const known = over(lines);
    if (!(known instanceof AlreadyReported)) return known;
    const result = await this.#client.getCheck(known.checkId).catch(() => undefined);
    if (result) return result.outcome ? reported(result) : known;
    const later = " That may have been corrected since, and the service cannot say now: call again when it answers.";
    return new AlreadyReported(known.checkId, known.status, later);
  }

  /** record reads a check that may have been carried out. It throws if the check is over or the service does not show it. */
  async record(key: string, checkId: string): Promise<CheckResult> {
    const result = await this.#client.getCheck(checkId).catch((problem: unknown) => {
      const unreadable = problem instanceof APIError && problem.definite && [403, 404].includes(problem.status); // as when it is archived
      if (!unreadable) throw new Unanswered(key, checkId, problem);
      throw new InDoubt(key, checkId, "it was begun, and the service does not show it", problem);
    });
    return this.unlessOver(key, result);
  }

  /** unlessOver throws if a check has ended, and records that in the journal first: the service forgets idempotency keys. */
  async unlessOver(key: string, result: CheckResult): Promise<CheckResult> {
    if (!result.outcome) return result;
    const report = { status: result.outcome.status } as OutcomeReport;
    await this.#journal.add(key, "closed", { key, check_id: result.check_id, report }).catch(() => false); // the check is over in any case
    throw reported(result);
  }

  /** announce records that a body is about to be repeated, so that the process that ran it before gives nothing back. */
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
      await this.record(key, check_id); // throws if it has ended meanwhile; otherwise this key may not repeat it
      throw new InDoubt(key, check_id, "it was begun here or elsewhere, and its end is not known", problem);
    }
  }

  /** giveBack ends a check whose body moved nothing. If another process may be repeating the body, it throws InDoubt. */
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
    if (redeemed) await this.#journal.add(key, "closed", line).catch(() => false); // the service has the report in any case
    else await this.end(key, checkId, report, problem);
  }

  /** end records in the journal how the body ended, and reports it. One of the two is enough to know it later. */
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

  /** reportEnd reports an end that was not reported. An executed body that is on record as not executed stays unreported. */
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
        // The next report leaves out what the service did not accept or what could not be sent.
        const isRefused = problem instanceof APIError ? [400, 422].includes(problem.status) : !(problem instanceof SpendgateError);
        if (told === "later" && !isRefused) return told;
      }
      if (told !== "later") break;
    }
    if (told === "later" || (told === "contrary" && isExecuted)) return told;
    await this.#journal.add(ended.key, "closed", ended).catch(() => false); // if this fails, it is reported once more
    return told;
  }
}
