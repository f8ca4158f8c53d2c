import type { Reply } from "./send.js";
import type { Approval, CheckOutcome, CheckRedemption, CheckResult, EventPage, Page, Payment, Sums } from "./types.js";

// These functions turn answers into values. They throw on an answer that the service does not give.

export type Accept<T> = (body: unknown, reply: Reply) => T;

type Members = Record<string, unknown>;

export function object(body: unknown): Members {
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw new TypeError("it is no object");
  return body as Members;
}

function text(members: Members, name: string, prefix = ""): string {
  const value = members[name];
  if (typeof value !== "string" || value === "" || !value.startsWith(prefix))
    throw new TypeError(`${name} is not as it should be`);
  return value;
}

/** having accepts an object with texts under these names. */
export function having<T>(...names: string[]): Accept<T> {
  return (body) => {
    const members = object(body);
    for (const name of names) text(members, name);
    return members as T;
  };
}

/** replayable accepts an answer of which a header says whether it was given before. */
export function replayable<T>(...names: string[]): Accept<T & { replayed: boolean }> {
  return (body, reply) => ({ ...having<T>(...names)(body, reply), replayed: replayed(reply) });
}

/** replayed reports whether an earlier answer was repeated: the header is present and does not deny it. */
function replayed({ headers }: Pick<Reply, "headers">): boolean {
  const value = headers.get("Idempotent-Replayed");
  return value !== null && !/^\s*(\?0|false)\s*$/i.test(value);
}

/**
 * checkResult accepts the result for an action. asked says whether it answers a check: only then it can allow something. The
 * answer to a check of a payment has the member payment, and allows something only where that says so.
 */
export function checkResult(asked: boolean, paymentKey?: string): Accept<CheckResult> {
  return (body, reply) => {
    const members = object(body);
    text(members, "check_id", "chk_");
    if (!["allow", "block", "escalate"].includes(text(members, "decision"))) throw new TypeError("it has no decision");
    const version = members["policy_version"];
    if (!Number.isInteger(version) || (version as number) < 1) throw new TypeError("it has no version of a policy");
    const outcome = checkOutcome(reply.headers);
    const redemption = checkRedemption(reply.headers);
    const redeem_required = reply.headers.has("Redeem");
    const result = { ...members, redeem_required, outcome, redemption, replayed: replayed(reply) } as CheckResult;
    if (result.payment) {
      // It is asked for again under its key, not by another check.
    } else if (outcome) result.next_step = nextStep(outcome);
    else if (redemption) result.next_step = nextStepOf(redemption);
    if (paymentKey !== undefined) {
      result.allowed = asked && payment(members["payment"], paymentKey).proceed;
      if (result.allowed && result.decision !== "allow") throw new TypeError("it permits what was not allowed");
    } else {
      if (asked && !reply.headers.has("X-Request-ID")) throw new TypeError("a proxy drops headers, which tell a replay: X-Request-ID is missing");
      const isFree = outcome === null && redemption === null && !redeem_required && !("payment" in members);
      result.allowed = asked && result.decision === "allow" && isFree;
    }
    return result;
  };
}

/** payment accepts the member payment that speaks of the payment with this key. */
function payment(member: unknown, key: string): Payment {
  const members = object(member);
  if (text(members, "payment_key") !== key.trim().normalize("NFC")) throw new TypeError("it speaks of another payment");
  const [state, proceed] = [text(members, "state"), members["proceed"]];
  const isHeld = state === "redeemed" && members["outcome"] === null;
  if (typeof proceed !== "boolean" || (proceed && !isHeld)) throw new TypeError("it does not say whether to proceed");
  if (proceed) for (const name of ["nonce", "execution_id", "redemption_id"]) text(members, name);
  return members as unknown as Payment;
}

/** of accepts only what speaks of the check with this identifier. */
export function of<T extends { check_id: string }>(checkId: string, accept: Accept<T>): Accept<T> {
  return (body, reply) => {
    const found = accept(body, reply);
    if (found.check_id !== checkId) throw new TypeError("it is about another check");
    return found;
  };
}

/**
 * checkOutcome reads the header Outcome, an item of RFC 8941. Any other value counts as an
 * outcome, too: nothing is carried out when the header cannot be understood.
 */
function checkOutcome(headers: Headers): CheckOutcome | null {
  const value = headers.get("Outcome");
  if (value === null) return null;
  const found = /^ *(executed|failed|voided)(; *release=pending)? *$/.exec(value);
  if (!found) return { status: "unknown", release_pending: false };
  return { status: found[1] as CheckOutcome["status"], release_pending: found[2] !== undefined };
}

/** checkRedemption reads the header Redeemed, an item of RFC 8941. Any other value counts as a redemption, too. */
function checkRedemption(headers: Headers): CheckRedemption | null {
  const value = headers.get("Redeemed");
  if (value === null) return null;
  const found = /^ *(rdm_[^ ;,]+)(; *in_doubt)? *$/.exec(value);
  return found ? { redemption_id: found[1] as string, in_doubt: found[2] !== undefined } : { redemption_id: "unknown", in_doubt: false };
}

function nextStepOf({ in_doubt }: CheckRedemption): string {
  if (in_doubt)
    return "Do not carry the action out: it is in doubt whether it was carried out under this check. People find out, and report the outcome.";
  return "Do not carry the action out: somebody redeemed this check to do so, and reports the result as the check's outcome.";
}

function nextStep({ status, release_pending }: CheckOutcome): string {
  if (status === "executed") {
    const done = "Do not carry the action out: that was done under this check.";
    return `${done} If another one is meant, it is a new check, with another idempotency_key.`;
  }
  if (status === "unknown")
    return "Do not carry the action out: something was reported about this check that this program does not understand.";
  const step =
    "Do not carry the action out under this check. A new attempt is a new check, with another idempotency_key: act only on its answer.";
  return release_pending ? `${step} It may be blocked until somebody who may release has reported, too.` : step;
}

const noReply: Reply = { headers: new Headers(), text: "" };

/** results accepts the results of a simulation, which permit nothing. */
export function results(list: unknown, count: number): CheckResult[] {
  if (!Array.isArray(list) || list.length !== count) throw new TypeError(`there are not ${count} results`);
  return list.map((result) => checkResult(false)(result, noReply));
}

export const approval: Accept<Approval> = (body) => {
  const members = object(body);
  text(members, "approval_id", "apr_");
  text(members, "action_hash");
  if (!["pending", "approved", "denied", "expired", "used"].includes(text(members, "status")))
    throw new TypeError("it is no approval");
  return members as unknown as Approval;
};

/** page accepts a page whose elements have a text under this name. cursor is the one by which the page was read. */
export function page<T>(name: string, cursor: string | undefined): Accept<Page<T>> {
  return (body, reply) => {
    const members = object(body) as unknown as Page<T>;
    if (!Array.isArray(members.data)) throw new TypeError("it is no page");
    for (const element of members.data) having(name)(element, reply);
    const { has_more, next_cursor } = members.pagination;
    if (has_more && (!next_cursor || next_cursor === cursor)) throw new TypeError("there are more pages and no way to them");
    return members;
  };
}

/** sums accepts what checks come to. */
export const sums: Accept<Sums> = (body) => {
  const read = object(body) as unknown as Sums;
  if (!Array.isArray(read.amounts)) throw new TypeError("they have no amounts");
  return read;
};

/** events accepts a page of events after a sequence. */
export function events(after: number): Accept<EventPage> {
  return (body) => {
    const page = object(body) as unknown as EventPage;
    if (!Array.isArray(page.data) || !Number.isSafeInteger(page.next_after)) throw new TypeError("it is no page of events");
    if (page.next_after < after || (page.has_more && page.next_after === after))
      throw new TypeError("there are more events and no way to them");
    return page;
  };
}
