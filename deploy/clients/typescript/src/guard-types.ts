import type { Spendgate } from "./client.js";
import type { ApprovalPending } from "./errors.js";
import type { Journal } from "./journal.js";
import type { Action, OutcomeReport } from "./types.js";

export interface GateOptions {
  client: Spendgate;
  /** Remembers across crashes what was begun. Only a gate that redeems, by its option or by the role of its key, can work without one. */
  journal?: Journal;
  /** Members that are the same for all actions, such as agent_id and policy_id. */
  defaults?: Partial<Action>;
  /**
   * Whether the gate redeems checks before it runs the body. By default it does with a key of role gateway.
   * false says that the payment provider that a body calls redeems them if the policy requires that.
   */
  redeem?: boolean;
}

/** An action of a gate: the members that the gate has defaults for may be left out. */
export type GuardedAction = Partial<Action> & { idempotency_key: string };

/** What the body is given. check_id is the idempotency key for the payment provider, which then pays at most once. */
export interface Permit {
  check_id: string;
  idempotency_key: string;
}

export interface CarryOptions<R> {
  /** The body passes check_id to a provider that takes idempotency keys. Then a body in doubt is repeated under the same key. */
  providerKey?: boolean;
  /** For how many hours the provider certainly remembers such a key; 24 by default. A body that began earlier is not repeated. */
  providerKeyHours?: number;
  /** How long to wait for people to decide, in milliseconds; 0 by default. */
  wait?: number;
  /** Returns true if what the body threw means that certainly nothing was moved. By default, and for a repeated body, no error does. */
  declined?: (problem: unknown) => boolean;
  /** Returns what is reported for the body's value, such as the provider's reference. */
  report?: (value: R) => Omit<OutcomeReport, "status">;
}

/** How the input of a guarded function becomes an action: each member is a value or a function of the input. */
export type Plan<I> = { key: (input: I) => string } & {
  [M in Exclude<keyof Action, "idempotency_key" | "approval_id">]?: Action[M] | ((input: I) => Action[M]);
};

export interface Guarded<I, R> {
  (input: I): Promise<R>;
  /** pending asks the service, and returns the approval that the action waits for, if any. Nothing is carried out. */
  pending(input: I): Promise<ApprovalPending | undefined>;
}

/** The result of resume, as idempotency keys. */
export interface Resumed {
  /** These had ended before, and were reported now. */
  reported: string[];
  /** These have ended, and the report failed: resume again. */
  unreported: string[];
  /**
   * For these, find out at the provider, then settle; or, if the provider takes a key, call the guarded function again.
   * An action that was carried out, but that people reported as not, is here until they correct the report.
   */
  in_doubt: { idempotency_key: string; check_id: string }[];
}
