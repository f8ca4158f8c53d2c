import type { Guarded } from "./guard-types.js";
import { type Refusal, orRefusal } from "./refusal.js";

/**
 * guardedTool returns the members needsApproval and execute of a tool of the AI SDK:
 *
 *     tool({ description, inputSchema, ...guardedTool(refund) })
 *
 * The SDK asks for an approval while people have to decide in spendgate. A yes is not
 * believed: execute asks the service, and returns a Refusal while nothing is allowed. A no ends
 * this call alone: what must not be done under its key is denied in spendgate.
 */
export function guardedTool<I, R>(guarded: Guarded<I, R>) {
  return {
    needsApproval: async (input: I): Promise<boolean> => (await guarded.pending(input)) !== undefined,
    execute: (input: I): Promise<R | Refusal> => orRefusal(guarded(input)),
  };
}
