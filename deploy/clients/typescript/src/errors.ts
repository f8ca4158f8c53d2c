import { printable } from "./visible.js";
import type { Approval, CheckResult, Outcome } from "./types.js";

/** The root of all errors of this package. */
export class SpendgateError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/** An unsuccessful answer. `code` is empty when another server answered, not the service. */
export class APIError extends SpendgateError {
  readonly status: number;
  readonly code: string;
  /** For a validation error, each faulty field with what is wrong. */
  readonly faults: string[];
  /** Names the request in the service's log. */
  readonly requestId: string;
  /** Seconds to wait before another attempt; 0 when the service says nothing. */
  readonly retryAfter: number;
  /** What the service says is wrong. */
  readonly detail: string;
  /** For outcome_already_reported, the last report. */
  readonly latest: Outcome | undefined;
  /** For events_removed, where a reader of events goes on; otherwise 0. */
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

  /** definite reports whether the service itself refused the request, so that it certainly was not carried out. */
  get definite(): boolean {
    return Math.floor(this.status / 100) === 4 && this.code !== "";
  }
}

/** There was no answer, or none that can be understood. The request may have been carried out. */
export class NoAnswer extends SpendgateError {}

/**
 * It is unknown whether the service decided a check. Nothing is allowed. Check the same action
 * with this idempotency key to ask again. `cause` says why.
 */
export class NoDecision extends SpendgateError {
  constructor(
    readonly idempotencyKey: string,
    cause: Error,
  ) {
    super(`there is no decision: ${cause.message}`, cause);
  }
}

/** A delivery of a webhook that is not signed by the service, or too old. */
export class BadSignature extends SpendgateError {}

/** The reason why a guard did not run its body, or why the body is in doubt. */
export class NotCarriedOut extends SpendgateError {}

/** The service's decision is block. */
export class Blocked extends NotCarriedOut {
  constructor(readonly result: CheckResult) {
    super([result.message, result.next_step ?? "Do not proceed."].filter(Boolean).join(" "));
  }
}

/**
 * The policy requires that the check is redeemed, and this gate does not redeem. Use a key of role
 * gateway, or `redeem: false` if the payment provider that the body calls redeems the permit's check_id.
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

/** People have to decide first. Call again later to ask the service again. */
export class ApprovalPending extends NotCarriedOut {
  /** Empty when the rule asks for no approval. Then tell somebody: nothing will change by itself. */
  readonly approvalId: string;
  constructor(
    readonly result: CheckResult,
    readonly approval?: Approval,
  ) {
    super(approval?.next_step ?? result.next_step ?? "Wait for a person.");
    this.approvalId = result.approval_id ?? "";
  }
}

/** People denied the action. */
export class Denied extends NotCarriedOut {
  readonly approvalId: string;
  constructor(readonly approval: Approval) {
    super(approval.next_step);
    this.approvalId = approval.approval_id;
  }
}

/** Nobody decided in time, or the approval was not used in time. */
export class ApprovalExpired extends Denied {}

/** The action was carried out under this key. `outcome` is undefined if this journal does not have the end: Spendgate.getOutcome has it. */
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
 * It is unknown whether the body's effect happened, and the body is not repeated. Find out at the
 * payment provider, then report it with Gate.settle. `cause` is what the body threw.
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
 * The action may have been carried out, and the service cannot give its outcome now: `cause` says why.
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

/** Another call of this gate decides about the action or carries it out now. Call again when that has ended. There is nothing to settle. */
export class Running extends InDoubt {
  constructor(idempotencyKey: string) {
    super(idempotencyKey, "", "", undefined, "It is being carried out now: call again when that has ended; report nothing.");
  }
}

/** The idempotency key identifies no action: it is empty, or the text of an object or of undefined. The service was not asked. */
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
