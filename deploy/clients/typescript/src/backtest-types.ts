import type { Amount } from "./amount.js";
import type { ExactNumber } from "./json.js";
import type { ActionType, Decision, NewPolicy, Policy, Rule, Timestamp } from "./types.js";

export interface BacktestProgress {
  checks: number;
  fraction: number;
  reached: Timestamp | null;
}

export type BacktestStatus = "queued" | "running" | "succeeded" | "failed" | "canceled";
/** Whose decisions fill duplicate windows and budgets: the candidate's own, or those that were recorded. */
export type BacktestState = "counterfactual" | "recorded";

/** A request for a backtest, of rules or of a version. */
export interface NewBacktest {
  policy_id: string;
  rules?: Rule[] | undefined;
  version?: number | undefined;
  /** A time or a UTC date, included. */
  from: string;
  to: string;
  /** The default is counterfactual. */
  state?: BacktestState | undefined;
}

export interface BacktestSummary {
  backtest_id: string;
  policy_id: string;
  /** Null for a backtest of rules. */
  version: number | null;
  from: Timestamp;
  to: Timestamp;
  state: BacktestState;
  status: BacktestStatus;
  progress: BacktestProgress;
  error: string | null;
  key_id: string;
  principal: string;
  created_at: Timestamp;
  started_at: Timestamp | null;
  ended_at: Timestamp | null;
}

/** A replay of recorded checks by other rules. */
export interface Backtest extends BacktestSummary {
  rules: Rule[] | null;
  /** Null until it has succeeded. */
  report: Report | null;
}

/** How recorded decisions compare with those of a candidate. */
export interface Report {
  coverage: {
    from: Timestamp;
    to: Timestamp;
    checks: number;
    compared: number;
    skipped: { reason: string; checks: number }[];
    warm_up: { from: Timestamp; checks: number } | null;
    missing_days: string[];
  };
  flips: { total: number; stricter: number; looser: number; to_allow: number; listed: number };
  /** By the recorded decision, then by the candidate's decision. */
  matrix: Record<Decision, Record<Decision, ReportCell>>;
  rules: { rule_id: string; recorded: ReportEffects; candidate: ReportEffects }[];
  budgets: {
    rule_id: string;
    currency: string | null;
    limit: Amount | null;
    max_count: number | null;
    used: ReportPeak | null;
    count: ReportPeak | null;
  }[];
}

/** A possible next version of a policy. */
export interface Draft extends Omit<Policy, "version" | "updated_at"> {
  /** No two drafts have the same. */
  draft_hash: string;
  base_version: number;
  author: { principal: string; key_id: string } | null;
  note: string | null;
  /** The version in force. This member and those below are present if that version requires approvals, except in the answer to putDraft. */
  policy_version?: number;
  required?: number;
  missing?: number;
  from?: { group: string; required: number; missing: number }[];
  approvals?: DraftApproval[];
}

export interface DraftApproval {
  principal: string;
  /** Of a person who had signed in, as recorded then. */
  name?: string;
  email?: string;
  key_id: string;
  note: string | null;
  at: Timestamp;
  /** The version that was in force then. */
  policy_version: number;
  /** Whether it counts for a promotion now. */
  counts: boolean;
  groups?: string[];
  drop_budgets?: string[];
}

/** A draft as it is put. */
export type NewDraft = Omit<NewPolicy, "policy_id" | "drop_budgets">;

/** The backtest of a draft: a comparison of its decisions with those recorded since it was put. */
export interface DraftReport {
  policy_id: string;
  draft_hash: string;
  base_version: number;
  since: Timestamp;
  backtest_id: string;
  /** Of the backtest. While it is queued or running, report and flips are those of the time before. */
  status: BacktestStatus;
  progress: BacktestProgress;
  error: string | null;
  /** Null until the backtest has succeeded once. */
  report: Report | null;
  /** The newest 100. */
  flips: Flip[];
}

export interface ReportCell {
  checks: number;
  /** By currency. */
  amounts: Record<string, number | ExactNumber>;
}

export interface ReportEffects {
  block: number;
  escalate: number;
}

/** The highest usage of any counter of a budget. */
export interface ReportPeak {
  value: number | ExactNumber;
  per: Record<string, string>;
  window_start: Timestamp | null;
}

/** A check that the candidate decides otherwise. */
export interface Flip {
  check_id: string;
  timestamp: Timestamp;
  recorded: Verdict;
  candidate: Verdict;
  /** Null without checks:read. */
  action: { agent_id: string; action_type: ActionType; amount: Amount; currency: string; counterparty: string } | null;
}

export interface Verdict {
  decision: Decision;
  rule_id: string | null;
  reason_code: string | null;
  policy_version: number | null;
}
