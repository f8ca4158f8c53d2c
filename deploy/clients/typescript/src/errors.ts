import type { Approval, CheckResult, Outcome } from "./types.js";

/** The root of all errors of this package. */
export class SpendgateError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/** An answer that is no success. `code` is empty when it was not the service that answered. */
export class APIError extends SpendgateError {
  readonly status: number;
  readonly code: string;
  /** Of a validation error: what is wrong, each with its path. */
  readonly faults: string[];
  /** Names the request in the service's log. */
  readonly requestId: string;
  /** Seconds to wait before another try; 0 when the service says nothing. */
  readonly retryAfter: number;
  /** What the service says is wrong. */
  readonly detail: string;
  /** Of outcome_already_reported: the last report. */
  readonly latest: Outcome | undefined;
  /** Of events_removed: where a reader of events goes on; else 0. */
  readonly nextAfter: number;

  constructor(answer: {
    status: number;
    code: string;
    message: string;
    requestId: string;
    retryAfter: number;
    latest?: unknown;
    nextAfter?: unknown;
  }) {
    const { status, code, message, requestId, retryAfter, latest, nextAfter } = answer;
    super(
      code
        ? `${printable(code)}: ${printable(message)} (${status}, ${printable(requestId)})`
        : `${status}: the answer is not spendgate's; is the address right?`,
    );
    this.status = status;
    this.code = code;
    this.detail = message;
    this.latest = latest as Outcome | undefined;
    this.nextAfter = Number(nextAfter ?? 0);
    this.faults = code === "validation_error" ? message.split("; ") : [];
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }

  /** definite: the service itself refused what was asked, so it certainly was not done. */
  get definite(): boolean {
    return Math.floor(this.status / 100) === 4 && this.code !== "";
  }
}

/** printable keeps control sequences for a terminal out of a text. */
function printable(text: string): string {
  return /[\p{C}]/u.test(text) ? JSON.stringify(text) : text;
}

/** There was no answer, or none that can be understood: what was asked may have been done. */
export class NoAnswer extends SpendgateError {}

/**
 * A check of which it is not known whether the service decided it. Nothing is allowed.
 * The same action with this idempotency key asks again. `cause` says why.
 */
export class NoDecision extends SpendgateError {
  constructor(
    readonly idempotencyKey: string,
    cause: Error,
  ) {
    super(`there is no decision: ${cause.message}`, cause);
  }
}

/** A webhook's delivery that is not to be believed. */
export class BadSignature extends SpendgateError {}

/** Why a guard did not run its body, or what is in doubt about it. */
export class NotCarriedOut extends SpendgateError {}

/** The service's decision is block. */
export class Blocked extends NotCarriedOut {
  constructor(readonly result: CheckResult) {
    super(result.next_step ?? "Do not proceed.");
  }
}

/**
 * The policy wants the check redeemed, and this gate does not redeem: use a key of role gateway,
 * or `redeem: false` where what the body calls redeems the permit's check_id.
 */
export class RedemptionRequired extends NotCarriedOut {
  readonly checkId: string;
  constructor(readonly result: CheckResult) {
    super(
      `${result.check_id} is to be redeemed before its action is carried out, and the role of this key does not redeem: ` +
        "use a key of role gateway, or redeem: false where what the body calls redeems check_id",
    );
    this.checkId = result.check_id;
  }
}

/** People have to decide first. Call again later: the service is asked then. */
export class ApprovalPending extends NotCarriedOut {
  /** Empty when the rule asks for no approval: then tell somebody, nothing will change by itself. */
  readonly approvalId: string;
  constructor(
    readonly result: CheckResult,
    readonly approval?: Approval,
  ) {
    super(approval?.next_step ?? result.next_step ?? "Wait for a person.");
    this.approvalId = result.approval_id ?? "";
  }
}

/** People refused. */
export class Denied extends NotCarriedOut {
  readonly approvalId: string;
  constructor(readonly approval: Approval) {
    super(approval.next_step);
    this.approvalId = approval.approval_id;
  }
}

/** Nobody decided in time, or what was approved was not used in time. */
export class ApprovalExpired extends Denied {}

/** It was carried out under this key. `outcome` is undefined where only its status is known. */
export class AlreadyExecuted extends NotCarriedOut {
  constructor(
    readonly checkId: string,
    readonly outcome?: Pick<Outcome, "status" | "reference">,
  ) {
    super(
      `Do not carry it out again: it was executed under ${checkId}. Another action is a new check, with another idempotency key.`,
    );
  }
}

const another = " A new attempt is a new check, with another idempotency key.";
const newAttempt: Record<string, string> = { failed: another, voided: another };

/** An attempt under this key is over: it failed, was voided, or something was reported that this program does not know. */
export class AlreadyReported extends NotCarriedOut {
  constructor(
    readonly checkId: string,
    readonly status: string,
    next = newAttempt[status] ?? "",
  ) {
    super(`Do not carry it out under ${checkId}: its outcome is ${status}.${next}`);
  }
}

/**
 * It is not known whether the body's effect happened, and it is not repeated. Find out at
 * the payment provider, then say so with Gate.settle. `cause` is what the body threw.
 */
export class InDoubt extends NotCarriedOut {
  constructor(
    readonly idempotencyKey: string,
    readonly checkId: string,
    why: string,
    cause?: unknown,
    message = `It is in doubt whether ${checkId} was carried out: ${why}. It is not repeated.`,
  ) {
    super(message, cause);
  }
}

/**
 * It may have been carried out, and the service cannot say now what became of it: `cause` says why.
 * Call again when the service answers: the gate asks it first.
 */
export class Unanswered extends InDoubt {
  constructor(idempotencyKey: string, checkId: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      idempotencyKey,
      checkId,
      "",
      cause,
      `It may have been carried out under ${checkId}, and the service cannot say now: ${why}. Do not carry it out in another way. ` +
        "Call again when the service answers.",
    );
  }
}

/** Another call of this gate decides about it or carries it out now: call again when that has ended. There is nothing to settle. */
export class Running extends InDoubt {
  constructor(idempotencyKey: string) {
    super(idempotencyKey, "", "", undefined, "It is being carried out now: call again when that has ended; report nothing.");
  }
}

/** The idempotency key names no action, as the text of an object or of nothing. Nothing was asked. */
export class BadKey extends NotCarriedOut {
  constructor(readonly idempotencyKey: unknown) {
    super(
      `${JSON.stringify(idempotencyKey)} names no action: what is guarded needs an idempotency key of its own, ` +
        "such as the number of an order, and not the text of an object, or of nothing",
    );
  }
}

/** The idempotency key belongs to another action, or its action changed after it was allowed. */
export class KeyReused extends NotCarriedOut {
  constructor(
    readonly idempotencyKey: string,
    why = "the idempotency key was used for another action: each action needs one of its own",
  ) {
    super(why);
  }
}
