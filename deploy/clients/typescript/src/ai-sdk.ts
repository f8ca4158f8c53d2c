import type { Guarded } from "./guard-types.js";
import { type Refusal, orRefusal } from "./refusal.js";

/** Call is what the SDK says of the call of a tool. */
interface Call {
  toolCallId: string;
  messages: readonly { content: unknown }[];
}

function asks(part: unknown, toolCallId: string): boolean {
  const { type, toolCallId: of } = part as { type?: unknown; toolCallId?: unknown };
  return type === "tool-approval-request" && of === toolCallId;
}

/**
 * guardedTool returns the members needsApproval and execute of a tool of the AI SDK:
 *
 *     tool({ description, inputSchema, ...guardedTool(refund) })
 *
 * The SDK asks for an approval while people have to decide in spendgate. An approval in the SDK
 * is not trusted: execute asks the service, and returns a Refusal while nothing is allowed. A
 * denial in the SDK ends only this call: to forbid the action under its key, deny it in spendgate.
 *
 * The SDK asks once more before it executes, and refuses a call that needs no approval any more. So a
 * call for which it has asked goes on needing one, in whatever order the two are approved.
 */
export function guardedTool<I, R>(guarded: Guarded<I, R>) {
  return {
    needsApproval: async (input: I, { toolCallId, messages }: Call): Promise<boolean> =>
      messages.some(({ content }) => Array.isArray(content) && content.some((part) => asks(part, toolCallId))) ||
      (await guarded.pending(input)) !== undefined,
    execute: (input: I): Promise<R | Refusal> => orRefusal(guarded(input)),
  };
}
