export { amount, compareAmounts, minorUnits, type Amount, type AmountInput } from "./amount.js";
export { ExactNumber } from "./json.js";
export * from "./errors.js";
export type * from "./types.js";
export type * from "./admin-types.js";
export type { Admin } from "./admin.js";
export type { List } from "./list.js";
export type { CallOptions, Options } from "./send.js";
export { Spendgate, newIdempotencyKey, type Redeemed } from "./client.js";
export type * from "./backtest-types.js";
export type * from "./queries.js";
export { verifyWebhook } from "./webhooks.js";
export {
  Gate,
  type CarryOptions,
  type GateOptions,
  type Guarded,
  type GuardedAction,
  type Permit,
  type Plan,
  type Resumed,
} from "./guard.js";
export { memoryJournal, type Journal, type Line, type Lines, type Step } from "./journal.js";
export { orRefusal, type Refusal } from "./refusal.js";
