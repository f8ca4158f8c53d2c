import type { AmountInput } from "./amount.js";
import type * as D from "./generated.js";
import type { ExactNumber } from "./json.js";

// The structures of the API are generated from openapi.yaml. Here is what the package adds to them.

export type {
  ActionType, Approval, ApprovalItem, ApprovalStatus, BacktestProgress, BacktestState, BacktestStatus, Backtest, BacktestSummary, Budget, Changes, Freeze, Grant,
  CheckRecord, Decision, DecisionCounts, Delivery, Draft, DraftApproval, DraftDecision, DraftReport, Event, EventPage, Flip, Health, Key, KeyChange,
  NewKey, NewWebhook, Outcome, OutcomeStatus, Payment, Policy, PolicyVersion, RecordedAction, RecordedRedemption, Report, ReportCell,
  ReportEffects, ReportPeak, Rule, Session, Stats, Sums, Timestamp, Verdict, Violation, WaitingDraft, Webhook,
  ListChecksQuery as CheckQuery, ListApprovalsQuery as ApprovalQuery, ListBudgetsQuery as BudgetQuery, ListViolationsQuery as ViolationQuery,
  ListEventsQuery as EventQuery, ListBacktestsQuery as BacktestQuery, ListFreezesQuery as FreezeQuery, ListGrantsQuery as GrantQuery, GetStatsQuery as StatsQuery,
  GetSumsQuery as SumsQuery,
} from "./generated.js";

/** Any JSON. ExactNumber is a number that a JavaScript number cannot represent exactly. */
export type Json = string | number | bigint | boolean | null | ExactNumber | Json[] | { [name: string]: Json | undefined };
export type JsonObject = { [name: string]: Json | undefined };

/** A structure of a request: members that do not apply are left out or undefined. */
type Sent<T> = {
  [M in keyof T]: {} extends Pick<T, M> ? SentMember<M, T[M]> | undefined : SentMember<M, T[M]>;
};
type SentMember<M, V> = M extends "amount" ? AmountInput : Exclude<V, null>;

/** A planned movement of money. */
export type Action = Sent<D.Action>;
/** An action as a check is redeemed for it, or its hash; payment_key names a payment of the redeemer's own. */
export type Redeemed = Omit<Sent<D.RedeemRequest>, "idempotency_key">;
/** What became of an allowed action. */
export type OutcomeReport = Sent<D.OutcomeRequest>;
/** What is said of a check that is in doubt. */
export type DoubtReport = Sent<D.InDoubtRequest>;
export type NewPolicy = Sent<D.PolicyRequest>;
export type NewDraft = Sent<D.DraftRequest>;
/** A request for a backtest, of rules or of a version. */
export type NewBacktest = Sent<D.BacktestRequest>;

/** A request for a grant, with one of add_amount and add_count. */
export type NewGrant = Sent<D.GrantRequest>;
/** A request for a freeze. */
export type NewFreeze = Sent<D.FreezeRequest>;
export type KeyRequest = Sent<D.KeyRequest>;

/** The answer to an action. next_step considers the outcome, if there is one. */
export interface CheckResult extends D.CheckResult {
  /**
   * Whether the action may be carried out, once: the service answered a check with 200 and allow. Of a payment: and with
   * payment.proceed. Of any other check: and nobody redeemed it, and no outcome was reported; for a replay it is true even if
   * the action was carried out and nobody reported it. It is false for simulations and for checks that are read later.
   */
  allowed: boolean;
  /** Whether an earlier answer was repeated, because the idempotency key was known. */
  replayed: boolean;
  /** Whether the party that moves the money must redeem the check before it carries the action out. */
  redeem_required: boolean;
  /** The header Outcome; null when nothing was reported. */
  outcome: CheckOutcome | null;
  /** The header Redeemed; null when nobody redeemed the check. */
  redemption: CheckRedemption | null;
}

export interface CheckRedemption {
  /** unknown: the check was redeemed, and the header cannot be understood. */
  redemption_id: string;
  /** Whether it is unknown if the action was carried out. */
  in_doubt: boolean;
}

export interface CheckOutcome {
  /** unknown: something was reported that cannot be understood. Nothing is to be carried out. */
  status: D.OutcomeStatus | "unknown";
  /** Whether nothing was given back yet. */
  release_pending: boolean;
}

export interface Redemption extends D.Redemption {
  /** Whether this redemption was made before, under the same key. */
  replayed: boolean;
}

export interface Simulation extends Omit<D.Simulation, "results"> {
  results: CheckResult[];
}

export interface Page<T> {
  data: T[];
  pagination: { next_cursor: string | null; has_more: boolean; total_count?: number };
}
