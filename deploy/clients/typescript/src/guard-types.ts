import type { Spendgate } from "./client.js";
import type { Action, OutcomeReport } from "./types.js";

export interface GateOptions {
  /** A client whose API key may redeem (scope checks:redeem, as role gateway has it) and has a principal. */
  client: Spendgate;
  /** Members that are the same for all actions, such as agent_id and policy_id. */
  defaults?: Partial<GuardedMembers>;
  /** Told of a report that could not be delivered, which is repeated in the background. By default it is a warning on the console. */
  onUnreported?: (message: string, problem: unknown) => void;
}

/** The members of an action that a guard does not fill in itself. */
type GuardedMembers = Omit<Action, "idempotency_key" | "approval_id" | "redeem" | "take_over" | "take_over_within_hours">;

/** An action of a gate: the members that the gate has defaults for may be left out. */
export type GuardedAction = Partial<GuardedMembers> & { payment_key: string };

/** What the body is given. */
export interface Permit {
  payment_key: string;
  check_id: string;
  /** The idempotency key for the payment provider. It is the same for everybody who makes this payment, until an attempt was given back. */
  execution_id: string;
}

export interface CarryOptions<R> {
  /** The body gives execution_id to a provider that takes idempotency keys. Then a body whose end is unknown is begun again. */
  takeOver?: boolean;
  /** For how many hours the provider certainly remembers such a key: 1 to 168, 24 by default. A payment that began earlier is not taken over. */
  takeOverHours?: number;
  /** How long to wait for people to decide, in milliseconds; 0 by default. */
  wait?: number;
  /** For how long a lost answer is asked for again, in milliseconds; 60,000 by default. */
  unanswered?: number;
  /** Returns true if what the body threw means that certainly nothing was moved. By default no error does. */
  failedOn?: (problem: unknown) => boolean;
  /** Returns true if the body's value means that certainly nothing was moved. By default a value that looks like an error is in doubt. */
  failedIf?: (value: R) => boolean;
  /** Returns what is reported for the body's value, such as the provider's reference. By default a text is the reference. */
  report?: (value: R) => Omit<OutcomeReport, "status" | "supersedes" | "redemption_id">;
}

/** How the input of a guarded function becomes an action: each member is a value or a function of the input. */
export type Plan<I> = { payment_key: (input: I) => string } & {
  [M in Exclude<keyof GuardedMembers, "payment_key">]?: GuardedMembers[M] | ((input: I) => GuardedMembers[M]);
};

export interface Guarded<I, R> {
  (input: I): Promise<R | Reference>;
  /** run is the same, and says how the payment ended. It returns a failure that the guard was told of, which the function throws. */
  run(input: I): Promise<Ended<R>>;
  /** pending asks the service, and returns whether the payment waits for people. Nothing is carried out. */
  pending(input: I): Promise<boolean>;
}

/** What a guard returns of a payment that was made before: the reference that was reported. */
export type Reference = string | null;

/** How a payment ended. */
export interface Ended<R> {
  state: "executed" | "failed";
  /** Whether this call ran the body. */
  isNew: boolean;
  /** The body's value, if it returned one. */
  value?: R;
  /** What the body threw, if that means that nothing was moved. */
  problem?: unknown;
  reference: Reference;
}
