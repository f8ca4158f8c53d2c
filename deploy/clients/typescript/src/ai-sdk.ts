import type { Guarded } from "./guard-types.js";
import { type Refusal, orRefusal } from "./refusal.js";

/**
 * guardedTool returns the members needsApproval and execute of a tool of the AI SDK:
 *
 *     tool({ description, inputSchema, ...guardedTool(refund) })
 *
 * The SDK asks for an approval while people have to decide in spendgate. An approval in the SDK
 * is not trusted: execute asks the service, and returns a Refusal while nothing is allowed. A
 * denial in the SDK ends only this call: to forbid the action under its key, deny it in spendgate.
 */
export function guardedTool<I, R>(guarded: Guarded<I, R>) {
  return {
    needsApproval: async (input: I): Promise<boolean> => (await guarded.pending(input)) !== undefined,
    execute: (input: I): Promise<R | Refusal> => orRefusal(guarded(input)),
  };
}
