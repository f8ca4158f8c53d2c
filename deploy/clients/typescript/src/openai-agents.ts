import type { Guarded } from "./guard-types.js";
import { type Refusal, orRefusal } from "./refusal.js";

/**
 * guardedTool returns the members needsApproval and execute of a tool of the OpenAI Agents
 * SDK:
 *
 *     tool({ name, description, parameters, ...guardedTool(refund) })
 *
 * A run is interrupted while people have to decide in spendgate. That the interruption was
 * approved is not believed: execute asks the service, and returns a Refusal while nothing
 * is allowed. That it was rejected ends this call alone: what must not be done under its key
 * is denied in spendgate.
 */
export function guardedTool<I, R>(guarded: Guarded<I, R>) {
  return {
    needsApproval: async (_context: unknown, input: I): Promise<boolean> => (await guarded.pending(input)) !== undefined,
    execute: (input: I): Promise<R | Refusal> => orRefusal(guarded(input)),
  };
}
