import type { Spendgate } from "./client.js";
import type { ApprovalPending } from "./errors.js";
import type { Journal } from "./journal.js";
import type { Action, OutcomeReport } from "./types.js";

export interface GateOptions {
  client: Spendgate;
  /** Remembers over crashes what was begun. Only a gate that redeems can do without, by its option or by the role of its key. */
  journal?: Journal;
  /** Members of actions that are the same for all, such as agent_id and policy_id. */
  defaults?: Partial<Action>;
  /**
   * Whether checks are redeemed before they are carried out. By default those of a key of role gateway are;
   * false says that what a body calls does, where the policy wants it.
   */
  redeem?: boolean;
}

/** An action of a gate: the members that the gate has defaults for may be left out. */
export type GuardedAction = Partial<Action> & { idempotency_key: string };

/** What the body is given: under check_id the payment provider carries it out at most once. */
export interface Permit {
  check_id: string;
  idempotency_key: string;
}

export interface CarryOptions<R> {
  /** The body passes check_id to a provider that takes idempotency keys: what is in doubt is repeated under the same one. */
  providerKey?: boolean;
  /** For how long the provider is sure to know such a key; 24 by default. What began before that is not repeated. */
  providerKeyHours?: number;
  /** How long people are waited for, in milliseconds; 0 by default. */
  wait?: number;
  /** Whether (true) what the body threw means that certainly nothing was moved. By default nothing does, and of a repeated body nothing. */
  declined?: (problem: unknown) => boolean;
  /** What is reported of the body's value, such as the provider's reference. */
  report?: (value: R) => Omit<OutcomeReport, "status">;
}

/** How the input of a guarded function becomes an action: each member a value, or a function of the input. */
export type Plan<I> = { key: (input: I) => string } & {
  [M in Exclude<keyof Action, "idempotency_key" | "approval_id">]?: Action[M] | ((input: I) => Action[M]);
};

export interface Guarded<I, R> {
  (input: I): Promise<R>;
  /** pending asks the service and says for whom it would wait; undefined when for nobody. Nothing is carried out. */
  pending(input: I): Promise<ApprovalPending | undefined>;
}

/** What resume did, by idempotency keys. */
export interface Resumed {
  /** Ended before, reported now. */
  reported: string[];
  /** Ended, and the report failed: resume again. */
  unreported: string[];
  /**
   * Find out at the provider, then settle; or, if the provider takes a key, call the guarded function again.
   * What was carried out while people had reported that it was not is here until they correct that.
   */
  in_doubt: { idempotency_key: string; check_id: string }[];
}
