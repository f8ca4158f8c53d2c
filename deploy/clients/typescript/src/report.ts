import { amount } from "./amount.js";
import { AlreadyExecuted, AlreadyReported, type NotCarriedOut } from "./errors.js";
import type { Line, Lines } from "./journal.js";
import type { CheckResult, OutcomeReport } from "./types.js";

// How a body ended, as the journal and the service record it.

type Told = Omit<OutcomeReport, "status">;

/** ofValue returns the report for a body's value. An error of the caller's function does not prevent the report. */
export function ofValue<R>(value: R, report?: (value: R) => Told): OutcomeReport {
  let told: Told = {};
  try {
    told = report?.(value) ?? {};
  } catch {
    // The money was moved in any case.
  }
  return { status: "executed", ...reportable(told) };
}

/** reportable returns the valid parts of a report. It leaves out texts that are too long or not Unicode, and invalid amounts. */
export function reportable(told: Told): Told {
  const { amount: moved, reference, note } = told;
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

/** lesser returns a report, followed by shorter ones to try if the service does not accept it. */
export function lesser(report: OutcomeReport): OutcomeReport[] {
  const { status, amount: moved, reference, note } = report;
  const reports = [report];
  if (moved !== undefined && (reference ?? note) !== undefined) reports.push({ status, amount: moved });
  if ((moved ?? reference ?? note) !== undefined) reports.push({ status });
  return reports;
}

/** requireBody throws unless a body is a function that has ended when it, or the promise of it, returns. */
export function requireBody(body: unknown): void {
  if (typeof body !== "function") throw new TypeError("the guard runs what carries the action out: give it a function that does");
  if (/Generator/.test(Object.prototype.toString.call(body)))
    throw new TypeError("a generator runs after its call: it cannot be guarded");
}

/**
 * requirePermit throws if a body says that its provider takes check_id as its idempotency key, but does not even take the
 * permit, which is the last of its parameters: such a body would be repeated without a key, and pay twice.
 */
export function requirePermit(body: (...args: never[]) => unknown, parameters: number, { providerKey }: { providerKey?: boolean }): void {
  if (!providerKey || body.length >= parameters) return;
  const wanted = parameters === 1 ? "({ check_id }) => ..." : "(input, { check_id }) => ...";
  throw new TypeError(`providerKey says that the provider is given check_id as its idempotency key, which this body does not take: ${wanted}`);
}

/** isUnfinished reports whether a value is a generator, whose code runs only after it was returned. */
export function isUnfinished(value: unknown): boolean {
  return /Generator\]$/.test(Object.prototype.toString.call(value));
}

/** over returns what became of a key whose end is in the journal. */
export function over({ ended, closed }: Lines): NotCarriedOut {
  const line = (ended ?? closed) as Line;
  const { status, reference = null } = line.report as OutcomeReport;
  const checkId = line.check_id ?? "";
  return status === "executed" ? new AlreadyExecuted(checkId, { status, reference }) : new AlreadyReported(checkId, status);
}

/** reported returns what became of a check, by its outcome. */
export function reported({ check_id, outcome }: CheckResult): NotCarriedOut {
  const status = outcome?.status ?? "unknown";
  return status === "executed" ? new AlreadyExecuted(check_id) : new AlreadyReported(check_id, status);
}
