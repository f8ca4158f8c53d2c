import {
  AlreadyExecuted,
  AlreadyReported,
  ApprovalExpired,
  ApprovalPending,
  BadKey,
  Blocked,
  Denied,
  InDoubt,
  KeyReused,
  SpendgateError,
} from "./errors.js";

/** Refusal tells a model why a tool did nothing. It never reads like a success. */
export interface Refusal {
  state: "refused" | "pending" | "denied" | "expired" | "already_executed" | "in_doubt" | "error";
  /** What happened, and what to do next. */
  message: string;
  approval_id?: string;
}

// A class must come before the class that it extends.
const states: [new (...args: never[]) => SpendgateError, Refusal["state"]][] = [
  [Blocked, "refused"],
  [KeyReused, "refused"],
  [BadKey, "refused"],
  [AlreadyReported, "refused"],
  [ApprovalPending, "pending"],
  [ApprovalExpired, "expired"],
  [Denied, "denied"],
  [AlreadyExecuted, "already_executed"],
  [InDoubt, "in_doubt"],
  [SpendgateError, "error"],
];

/** orRefusal returns the value of a guarded function, or a Refusal if the function did nothing. The function's own errors are rethrown. */
export async function orRefusal<R>(run: Promise<R>): Promise<R | Refusal> {
  try {
    return await run;
  } catch (problem) {
    const state = states.find(([type]) => problem instanceof type)?.[1];
    if (!state) throw problem;
    const approvalId = problem instanceof ApprovalPending || problem instanceof Denied ? problem.approvalId : "";
    return { state, message: (problem as Error).message, ...(approvalId ? { approval_id: approvalId } : {}) };
  }
}
