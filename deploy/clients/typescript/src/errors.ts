import { printable } from "./visible.js";
import type { CheckResult, Outcome, Payment } from "./types.js";

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
  /** The check that the refusal speaks of; otherwise empty. */
  readonly checkId: string;
  /** For payment_differs, the members in which the action differs from the payment's. */
  readonly differs: string[];
  /** For payment_differs and payment_taken, the payment. */
  readonly payment: Payment | undefined;

  constructor(answer: {
    status: number;
    code: string;
    message: string;
    requestId: string;
    retryAfter: number;
    members?: Record<string, unknown>;
  }) {
    const { status, code, message, requestId, retryAfter, members = {} } = answer;
    super(
      code
        ? `${printable(code)}: ${printable(message)} (${status}, ${printable(requestId)})`
        : `${status}: the answer is not spendgate's; is the address right?`,
    );
    this.status = status;
    this.code = code;
    this.detail = message;
    this.latest = members["latest"] as Outcome | undefined;
    this.nextAfter = Number(members["next_after"] ?? 0);
    this.checkId = String(members["check_id"] ?? "");
    this.differs = Array.isArray(members["differs"]) ? members["differs"].map(String) : [];
    this.payment = members["payment"] as Payment | undefined;
    this.faults = code === "validation_error" ? message.split("; ") : [];
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }

  /** definite reports whether the service itself refused the request, so that it certainly was not carried out. */
  get definite(): boolean {
    return Math.floor(this.status / 100) === 4 && this.code !== "";
  }
}

/** The payment was asked for before with another action, from which this one differs in the members `differs`. */
export class Differs extends APIError {}

/** The action is in the scope of a freeze, which stops it until it is released. */
export class Frozen extends APIError {}

/** There was no answer, or none that can be understood. The request may have been carried out. */
export class NoAnswer extends SpendgateError {}

/**
 * It is unknown whether the service decided a check. Nothing is allowed. Check the same action
 * with this payment_key or idempotency_key to ask again. `cause` says why.
 */
export class NoDecision extends SpendgateError {
  constructor(
    readonly key: string,
    cause: Error,
  ) {
    super(`there is no decision: ${cause.message}`, cause);
  }
}

/** A delivery of a webhook that is not signed by the service, or too old. */
export class BadSignature extends SpendgateError {}

/** The reason why a guard did not run its body, or why the body is in doubt. */
export class NotCarriedOut extends SpendgateError {}

/** The message of a decision, as a sentence before others. */
const sentence = ({ message }: CheckResult) => (message ? `${message.replace(/\.$/, "")}. ` : "");

/** A decision of the service because of which the body did not run. */
class Refused extends NotCarriedOut {
  readonly checkId: string;
  /** Empty without an approval. */
  readonly approvalId: string;
  constructor(
    readonly result: CheckResult,
    message = `${sentence(result)}${result.next_step ?? "Do not proceed."}`,
  ) {
    super(message);
    this.checkId = result.check_id;
    this.approvalId = result.payment?.approval?.approval_id ?? result.approval_id ?? "";
  }
}

/** The service's decision is block. Once the cause is mended, call again. */
export class Blocked extends Refused {}

/** A rule escalates the action to people, and asks for no approval: tell somebody. */
export class Escalated extends Refused {}

/** People have to decide first. Call again later: an approval is used then. */
export class ApprovalPending extends Refused {
  constructor(result: CheckResult) {
    super(result, `${sentence(result)}People decide about it: call again when they have.`);
  }
}

/** People denied the action. */
export class Denied extends Refused {
  constructor(result: CheckResult, why = "People denied it.") {
    super(result, `${sentence(result)}${why} Do not proceed.`);
  }
}

/** Nobody decided in time, or the approval was withdrawn. The next call asks people anew. */
export class ApprovalExpired extends Denied {
  constructor(result: CheckResult) {
    super(result, "Nobody approved it in time.");
  }
}

/**
 * It is unknown whether the payment was made, and this call does not make it. While it is inProgress, another call may still
 * be making it: report nothing, and call again later. Otherwise find out at the payment provider, then report the outcome of
 * checkId. `cause` is what the body threw.
 */
export class InDoubt extends NotCarriedOut {
  constructor(
    readonly paymentKey: string,
    readonly checkId: string,
    why: string,
    cause?: unknown,
    message = `It is in doubt whether ${paymentKey} was carried out under ${checkId}: ${why}. It is not repeated.`,
    readonly inProgress = false,
  ) {
    super(message, cause);
  }
}

/** The service gave no answer that can be used. This call ran nothing, and may be made again: the service knows what became of it. */
export class Unanswered extends InDoubt {
  constructor(paymentKey: string, cause: Error) {
    super(paymentKey, "", "", cause, `${paymentKey} was not carried out by this call: ${cause.message}. Call again.`);
  }
}

/** The arguments of the call changed after the service was asked. The body did not run, and the check was given back. */
export class ActionChanged extends NotCarriedOut {
  constructor(
    readonly paymentKey: string,
    readonly checkId: string,
  ) {
    super(`${paymentKey} was not carried out: its arguments changed after ${checkId} was allowed, which was given back`);
  }
}

/** The payment_key names no payment: it is empty, or the text of an object or of nothing. The service was not asked. */
export class BadKey extends NotCarriedOut {
  constructor(readonly paymentKey: unknown) {
    super(
      `${JSON.stringify(paymentKey)} names no payment: what is guarded needs a payment_key of its own, ` +
        "such as the number of an order, and not the text of an object, or of nothing, and no part of it may be blank",
    );
  }
}
