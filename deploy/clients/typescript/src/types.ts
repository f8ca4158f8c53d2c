import type { Amount, AmountInput } from "./amount.js";
import type { ExactNumber } from "./json.js";

// The names are those of the API. Requests leave out members that do not apply.

export type ActionType = "refund" | "credit" | "discount" | "spend";
export type Decision = "allow" | "block" | "escalate";
/** RFC 3339, UTC, milliseconds. */
export type Timestamp = string;

/** Any JSON. ExactNumber is a number that a JavaScript number cannot represent exactly. */
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
  /** Requests with the same key are one check for 24 hours. Use one key per action, such as an order's number. */
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
  /** Considers the outcome, if there is one. */
  next_step: string | null;
  latency_ms: number;
  timestamp: Timestamp;
  /** The approval that an escalation asks for. */
  approval_id?: string;
  /**
   * Whether the action may be carried out, once: the service answered a check with 200 and allow,
   * nobody redeemed the check and no outcome was reported. It is false for simulations and for checks
   * that are read later. For a replay it is true even if the action was carried out and nobody reported it.
   */
  allowed: boolean;
  /** Whether an earlier answer was repeated, because the idempotency key was known. */
  replayed: boolean;
  /** In an answer to check: whether this request made the check, even if its answer was lost before. */
  first: boolean;
  /** Whether the party that moves the money must redeem the check before it carries the action out. */
  redeem_required: boolean;
  /** The header Outcome; null when nothing was reported. */
  outcome: CheckOutcome | null;
  /** The header Redeemed; null when nobody redeemed the check. */
  redemption: CheckRedemption | null;
  /** Milliseconds since the check, by the service's clock; absent if the answer does not give the time. */
  age_ms?: number;
}

export interface CheckRedemption {
  /** unknown: the check was redeemed, and the header cannot be understood. */
  redemption_id: string;
  /** Whether it is unknown if the action was carried out. */
  in_doubt: boolean;
}

export interface CheckOutcome {
  /** unknown: something was reported that cannot be understood. Nothing is to be carried out. */
  status: OutcomeStatus | "unknown";
  /** Whether nothing was given back yet. */
  release_pending: boolean;
}

export type OutcomeStatus = "executed" | "failed" | "voided";

/** What became of an allowed action. */
export interface OutcomeReport {
  status: OutcomeStatus;
  /** The amount that was moved, if executed; the check's by default. */
  amount?: AmountInput | undefined;
  reference?: string | undefined;
  note?: string | undefined;
  /** The number of the report that this one corrects, which must be the last; needs outcomes:release. */
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

/** An action as it was evaluated. Absent members are null. */
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

/** A check in a list: a record, not a permission. */
export interface CheckRecord
  extends Omit<CheckResult, "allowed" | "replayed" | "first" | "redeem_required" | "outcome" | "redemption" | "age_ms"> {
  action: RecordedAction;
  principal: string;
  outcome: Outcome | null;
  /** Absent unless the check was redeemed. */
  redemption?: RecordedRedemption;
}

/** A recorded redemption. */
export interface RecordedRedemption {
  check_id: string;
  redemption_id: string;
  redeemed_at: Timestamp;
  principal: string;
  key_id: string;
  /** Null while the check is not in doubt. */
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

/** What an escalated check asks of people. Text that agents wrote in it is only text. */
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
  /** How many approvals are missing. It is present with from, the groups whose members have to approve. */
  missing?: number;
  from?: { group: string; required: number; missing: number }[];
  exclude_author?: true;
  decisions: {
    principal: string;
    /** Of a person who had signed in, as recorded then. */
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
  /** What the budgets that judge the action have left; not in lists. */
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

/** Something that happened. The members of `data` depend on the type; later versions may have more types. */
export interface Event {
  id: string;
  type: string;
  timestamp: Timestamp;
  sequence: number;
  data: JsonObject;
}

export interface EventPage {
  data: Event[];
  /** The `after` of the next request, even when there are no more events yet. Store it together with the effects of the events. */
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

/** The approvals that the next version of a policy needs: as many as the greater of required and the sum of from. */
export interface Changes {
  required?: number;
  from?: { group: string; required?: number }[];
}

export interface NewPolicy {
  /** Generated when absent. If the policy exists, it gets a new version. */
  policy_id?: string | undefined;
  name: string;
  description?: string | undefined;
  rules: Rule[];
  metadata?: JsonObject | undefined;
  /** With "required", only redeemed checks can be reported as executed. */
  redeem?: "required" | undefined;
  /** How old a check may be when it is redeemed, in minutes; 15 by default. */
  redeem_within_minutes?: number | undefined;
  /** The next version must be a draft that this many people other than its author approved. */
  changes?: Changes | undefined;
  /** Shown with the versions, but not part of them. */
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
  /** The author of the draft that became this version; absent for other versions. */
  drafted_by?: { principal: string; key_id: string };
  note: string | null;
}
