import type { Guarded } from "./guard.js";
import { type Refusal, orRefusal } from "./refusal.js";

/**
 * guardedTool returns the members needsApproval and execute of a tool of the AI SDK:
 *
 *     tool({ description, inputSchema, ...guardedTool(refund) })
 *
 * The SDK asks for an approval while people have to decide in spendgate. Its answer is not
 * believed: execute asks the service, and returns a Refusal while nothing is allowed.
 */
export function guardedTool<I, R>(guarded: Guarded<I, R>) {
  return {
    needsApproval: async (input: I): Promise<boolean> => (await guarded.pending(input)) !== undefined,
    execute: (input: I): Promise<R | Refusal> => orRefusal(guarded(input)),
  };
}
