import type { Amount, AmountInput } from "./amount.js";
import type { ExactNumber } from "./json.js";

// Names are those of the API. Who sends leaves out what does not apply.

export type ActionType = "refund" | "credit" | "discount" | "spend";
export type Decision = "allow" | "block" | "escalate";
/** RFC 3339, UTC, milliseconds. */
export type Timestamp = string;

/** Any JSON. ExactNumber is a number that JavaScript's does not hold. */
export type Json = string | number | bigint | boolean | null | ExactNumber | Json[] | { [name: string]: Json | undefined };
export type JsonObject = { [name: string]: Json | undefined };

/** A planned movement of money. */
export interface Action {
  agent_id: string;
  policy_id: string;
  /** Or reason_text, from which it is derived. */
  action_type?: ActionType | undefined;
  amount: AmountInput;
  currency: string;
  counterparty: string;
  payment_method?: string | undefined;
  merchant_or_vendor?: string | undefined;
  reason_text?: string | undefined;
  /** Makes requests one check for 24 hours: one per action, such as an order's number. */
  idempotency_key?: string | undefined;
  /** Uses an approval of exactly this action. */
  approval_id?: string | undefined;
  metadata?: JsonObject | undefined;
}

/** The answer to an action. */
export interface CheckResult {
  check_id: string;
  decision: Decision;
  confidence: "high" | "medium" | "low";
  reason_code: string | null;
  message: string | null;
  violated_rule_id: string | null;
  violated_rule_description: string | null;
  policy_version: number;
  /** Goes by the outcome, where there is one. */
  next_step: string | null;
  latency_ms: number;
  timestamp: Timestamp;
  /** Of an escalation that asks people. */
  approval_id?: string;
  /**
   * Whether the action may be carried out, once: the service answered a check of it with
   * 200 and allow, nobody redeemed it and no outcome was reported. False of simulations and of what is read
   * again. Of what is replayed it is true also if it was carried out and nobody said so.
   */
  allowed: boolean;
  /** Whether an earlier answer was repeated, because the idempotency key was known. */
  replayed: boolean;
  /** Of an answer to check: this request made the check, even if its answer was lost before. */
  first: boolean;
  /** Whether it is to be redeemed before the action is carried out, by whoever moves the money. */
  redeem_required: boolean;
  /** What the header Outcome says: null when nothing was reported. */
  outcome: CheckOutcome | null;
  /** What the header Redeemed says: null when nobody took the check to carry the action out. */
  redemption: CheckRedemption | null;
  /** Milliseconds since the check, by the service's clock; absent where the answer does not say the time. */
  age_ms?: number;
}

export interface CheckRedemption {
  /** unknown: the check was redeemed, and the header cannot be understood. */
  redemption_id: string;
  /** Nobody knows whether the action was carried out. */
  in_doubt: boolean;
}

export interface CheckOutcome {
  /** unknown: something was reported that cannot be understood. Nothing is to be carried out. */
  status: OutcomeStatus | "unknown";
  /** Nothing was given back yet. */
  release_pending: boolean;
}

export type OutcomeStatus = "executed" | "failed" | "voided";

/** What became of an allowed action. */
export interface OutcomeReport {
  status: OutcomeStatus;
  /** That was moved, if executed; the check's by default. */
  amount?: AmountInput | undefined;
  reference?: string | undefined;
  note?: string | undefined;
  /** The number of the report that this one corrects, which is the last; with outcomes:release. */
  supersedes?: number | undefined;
  /** Refuses the report of a check that is in doubt. */
  unless_in_doubt?: boolean | undefined;
}

export interface Outcome {
  check_id: string;
  /** The reports of a check count from 1. */
  report: number;
  status: OutcomeStatus;
  amount: Amount | null;
  reference: string | null;
  note: string | null;
  release: "none" | "pending" | "done";
  flags: string[];
  principal: string;
  key_id: string;
  at: Timestamp;
}

/** An action as it was evaluated. What was absent is null. */
export interface RecordedAction {
  agent_id: string;
  policy_id: string;
  action_type: ActionType;
  amount: Amount;
  currency: string;
  counterparty: string;
  payment_method: string | null;
  merchant_or_vendor: string | null;
  reason_text: string | null;
  idempotency_key: string | null;
  metadata: JsonObject | null;
  approval_id?: string;
}

/** A check as it is listed: a record, no permission. */
export interface CheckRecord
  extends Omit<CheckResult, "allowed" | "replayed" | "first" | "redeem_required" | "outcome" | "redemption" | "age_ms"> {
  action: RecordedAction;
  principal: string;
  outcome: Outcome | null;
  /** Absent unless it was redeemed. */
  redemption?: RecordedRedemption;
}

/** A redemption as it is listed. */
export interface RecordedRedemption {
  check_id: string;
  redemption_id: string;
  redeemed_at: Timestamp;
  principal: string;
  key_id: string;
  /** Null while it is not in doubt. */
  in_doubt_at: Timestamp | null;
}

/** How many checks there were, by decision. */
export interface DecisionCounts {
  allow: number;
  block: number;
  escalate: number;
}

export interface Stats {
  step: "minute" | "hour" | "day";
  /** Every step of the range, the oldest first. */
  data: (DecisionCounts & { start: Timestamp })[];
  total: DecisionCounts;
}

export interface Redemption {
  check_id: string;
  action: RecordedAction;
  action_hash: string;
  redeemed_at: Timestamp;
  redemption_id: string;
  /** Whether this redemption was made before, under the same key. */
  replayed: boolean;
}

export interface Simulation {
  mode: "demo" | "simulation";
  policy_id: string;
  policy_version: number;
  results: CheckResult[];
  summary: { total: number; allowed: number; blocked: number; escalated: number };
}

export type ApprovalStatus = "pending" | "approved" | "denied" | "expired" | "used";

/** What an escalated check asks of people. What agents wrote in it is only text. */
export interface Approval {
  approval_id: string;
  status: ApprovalStatus;
  check_id: string;
  principal: string;
  action: RecordedAction;
  action_hash: string;
  rule_ids: string[];
  policy_id: string;
  policy_version: number;
  required: number;
  /** How many are missing; with the groups whose people have to approve, if there are any. */
  missing?: number;
  from?: { group: string; required: number; missing: number }[];
  exclude_author?: true;
  decisions: {
    principal: string;
    /** Of who had signed in, as of then. */
    name?: string;
    email?: string;
    key_id: string;
    decision: "approve" | "deny";
    note: string | null;
    at: Timestamp;
    groups?: string[];
  }[];
  created_at: Timestamp;
  expires_at: Timestamp;
  use_by: Timestamp | null;
  used_by_check_id: string | null;
  /** Of the budgets that judge its action; not in lists. */
  remaining?: {
    rule_id: string;
    remaining: Amount | null;
    remaining_count: number | null;
    remaining_after_approved: Amount | null;
    remaining_count_after_approved: number | null;
  }[];
  next_step: string;
}

/** A counter of a budget in its window. Sums may have more digits than an amount. */
export interface Budget {
  policy_id: string;
  rule_id: string;
  per: Record<string, string>;
  currency: string | null;
  limit: Amount | null;
  used: Amount;
  remaining: Amount | null;
  count: number;
  max_count: number | null;
  remaining_count: number | null;
  window: "hour" | "day" | "week" | "month" | "year" | "lifetime" | null;
  time_zone?: string;
  rolling_minutes?: number;
  window_start: Timestamp;
  resets_at: Timestamp | null;
  counting_since: Timestamp;
  as_of: Timestamp;
}

export interface Violation {
  violation_id: string;
  check_id: string;
  agent_id: string;
  policy_id: string;
  policy_version: number;
  action_type: ActionType;
  amount: Amount;
  currency: string;
  counterparty: string;
  decision: "block" | "escalate";
  violated_rule_id: string;
  violated_rule_description: string;
  confidence: "high" | "medium" | "low";
  latency_ms: number;
  timestamp: Timestamp;
}

/** Something that happened. What `data` has depends on the type; later versions may have more types. */
export interface Event {
  id: string;
  type: string;
  timestamp: Timestamp;
  sequence: number;
  data: JsonObject;
}

export interface EventPage {
  data: Event[];
  /** What to ask after next, also when there are no more yet: store it with what you made of the events. */
  next_after: number;
  has_more: boolean;
}

export interface Page<T> {
  data: T[];
  pagination: { next_cursor: string | null; has_more: boolean; total_count?: number };
}

export interface Rule {
  rule_id: string;
  rule_type: string;
  description?: string | null | undefined;
  parameters: JsonObject;
}

/** Whom the next version of a policy needs. Of required and the sum of from the greater holds. */
export interface Changes {
  required?: number;
  from?: { group: string; required?: number }[];
}

export interface NewPolicy {
  /** Generated when absent; a new version of the policy when it exists. */
  policy_id?: string | undefined;
  name: string;
  description?: string | undefined;
  rules: Rule[];
  metadata?: JsonObject | undefined;
  /** Only what was redeemed is reported as executed. */
  redeem?: "required" | undefined;
  /** How old a check may be that is redeemed: 15 unless given. */
  redeem_within_minutes?: number | undefined;
  /** The next version is a draft that so many others than its author approved. */
  changes?: Changes | undefined;
  /** Shown with the versions, and no part of them. */
  note?: string | undefined;
  /** Budgets that end with the version though they are in use. */
  drop_budgets?: string[] | undefined;
}

export interface Policy {
  policy_id: string;
  name: string;
  description?: string;
  version: number;
  rules: Rule[];
  created_at: Timestamp;
  updated_at: Timestamp;
  metadata: JsonObject | null;
  redeem?: "required";
  redeem_within_minutes?: number;
  changes?: Changes;
}

export interface PolicyVersion extends Policy {
  author: { principal: string; key_id: string } | null;
  /** Who put the draft that it was; absent of another version. */
  drafted_by?: { principal: string; key_id: string };
  note: string | null;
}
