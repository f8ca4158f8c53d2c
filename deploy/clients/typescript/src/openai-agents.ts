import type { Guarded } from "./guard-types.js";
import { type Refusal, orRefusal } from "./refusal.js";

/**
 * guardedTool returns the members needsApproval and execute of a tool of the OpenAI Agents
 * SDK:
 *
 *     tool({ name, description, parameters, ...guardedTool(refund) })
 *
 * A run is interrupted while people have to decide in spendgate. An approval of the interruption
 * is not trusted: execute asks the service, and returns a Refusal while nothing is allowed. A
 * rejection of it ends only this call: to forbid the action under its key, deny it in spendgate.
 */
export function guardedTool<I, R>(guarded: Guarded<I, R>) {
  return {
    needsApproval: async (_context: unknown, input: I): Promise<boolean> => (await guarded.pending(input)) !== undefined,
    execute: (input: I): Promise<R | Refusal> => orRefusal(guarded(input)),
  };
}
