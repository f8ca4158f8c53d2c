import type * as T from "./types.js";
import type { BacktestStatus } from "./backtest-types.js";

// The filters of lists. A member that is left out does not restrict the list.

export interface CheckQuery {
  agent_id?: string;
  policy_id?: string;
  decision?: T.Decision;
  /** none: allowed checks without a report; in_doubt: redeemed checks of which it is unknown whether they were carried out. */
  outcome?: T.OutcomeStatus | "none" | "in_doubt";
  counterparty?: string;
  action_type?: T.ActionType;
  reason_code?: string;
  idempotency_key?: string;
  approval_id?: string;
  /** An RFC 3339 time or a date, which is its whole UTC day; inclusive. */
  from?: string;
  to?: string;
  /** Exclusive. */
  before?: string;
  limit?: number;
}

export interface ApprovalQuery {
  status?: T.ApprovalStatus;
  policy_id?: string;
  agent_id?: string;
  /** Selects pending approvals that this key may decide and has not. */
  waiting_for?: "me";
  limit?: number;
}

export interface BudgetQuery {
  policy_id: string;
  rule_id?: string;
  /** Also lists counters of this agent that were not used yet. */
  agent_id?: string;
  counterparty?: string;
  /** A time that is in the windows; now by default. */
  at?: string;
  limit?: number;
}

export interface ViolationQuery {
  agent_id?: string;
  policy_id?: string;
  action_type?: T.ActionType;
  decision?: "block" | "escalate";
  from?: string;
  to?: string;
  limit?: number;
}

export interface EventQuery {
  /** The sequence after which to read; 0 reads from the first. */
  after?: number;
  type?: string;
  /** Where the feed begins if after is 0. */
  from?: string;
  limit?: number;
}

export interface BacktestQuery {
  policy_id?: string;
  status?: BacktestStatus;
  limit?: number;
}

export interface StatsQuery {
  /** RFC 3339 times or dates, UTC; the steps in which both lie are counted whole. */
  from: string;
  to: string;
  step: "minute" | "hour" | "day";
  policy_id?: string;
  agent_id?: string;
}
