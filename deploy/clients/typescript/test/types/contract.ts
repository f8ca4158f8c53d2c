// The types of the package are those of openapi.yaml, from which generated.ts is made. It
// is only compiled.
import type * as ours from "spendgate";
import type { components } from "./generated.js";

type Document = components["schemas"];

type Money = "amount" | "limit" | "used" | "remaining" | "remaining_after_approved";

type Text<T> = T extends readonly unknown[] | undefined ? Decoded<T> : string | Extract<T, null>;

/** Decoded is a type of the document as the package returns it: amounts are text. */
type Decoded<T> = T extends readonly (infer E)[]
  ? Decoded<E>[]
  : T extends object
    ? { [K in keyof T]: K extends "metadata" | "parameters" | "data" ? any : K extends Money ? Text<T[K]> : Decoded<T[K]> }
    : T;

/** Missing are members that only one of two types has. */
type Missing<A, B> = Exclude<keyof A, keyof B> | Exclude<keyof B, keyof A>;
type Equal<A, B> = [Missing<A, B>] extends [never] ? (Decoded<A> extends B ? true : "not assignable") : Missing<A, B>;

/** Sent are types of requests: the document has every member that the package takes. */
type Sent<Ours, Theirs> = [Missing<Ours, Theirs>] extends [never]
  ? Ours extends Theirs
    ? true
    : "not assignable"
  : Missing<Ours, Theirs>;

type Answer = Omit<ours.CheckResult, "allowed" | "replayed" | "first" | "redeem_required" | "outcome" | "redemption" | "age_ms">;

export const answers: {
  result: Equal<Document["CheckResult"], Answer>;
  record: Equal<Document["CheckRecord"], ours.CheckRecord>;
  action: Equal<Document["EvaluatedAction"], ours.RecordedAction>;
  outcome: Equal<Document["Outcome"], ours.Outcome>;
  approval: Equal<Document["Approval"], ours.Approval>;
  budget: Equal<Document["BudgetCounter"], ours.Budget>;
  violation: Equal<Document["Violation"], ours.Violation>;
  event: Equal<Document["KeyChangedEvent"], ours.Event>;
  policy: Equal<Document["Policy"], ours.Policy>;
  version: Equal<Document["PolicyVersion"], ours.PolicyVersion>;
  simulation: Equal<Omit<Document["Simulation"], "results">, Omit<ours.Simulation, "results">>;
  backtest: Equal<Omit<Document["BacktestResult"], "report" | "rules">, Omit<ours.Backtest, "report" | "rules">>;
  backtests: Equal<Document["Backtest"], ours.BacktestSummary>;
  coverage: Equal<Omit<Document["Report"], "matrix" | "budgets">, Omit<ours.Report, "matrix" | "budgets">>;
  draft: Equal<Omit<Document["Draft"], "rules">, Omit<ours.Draft, "rules">>;
  flip: Equal<Document["Flip"], ours.Flip>;
  key: Equal<Document["Key"], ours.Key>;
  newKey: Equal<Document["NewKey"], ours.NewKey>;
  webhook: Equal<Document["Webhook"], ours.Webhook>;
  newWebhook: Equal<Document["NewWebhook"], ours.NewWebhook>;
  delivery: Equal<Document["Delivery"], ours.Delivery>;
} = {} as { [name in keyof typeof answers]: true };

export const requests: {
  action: Sent<Omit<ours.Action, "amount" | "metadata">, Omit<Document["Action"], "amount" | "metadata">>;
  outcome: Sent<Omit<ours.OutcomeReport, "amount">, Omit<Document["OutcomeRequest"], "amount">>;
  backtest: Sent<Omit<ours.NewBacktest, "rules">, Omit<Document["BacktestRequest"], "rules">>;
  policy: Sent<Omit<ours.NewPolicy, "rules" | "metadata">, Omit<Document["PolicyRequest"], "rules" | "metadata">>;
} = {} as { [name in keyof typeof requests]: true };
