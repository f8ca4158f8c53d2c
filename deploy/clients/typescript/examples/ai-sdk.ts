// Vercel AI SDK: it asks for an approval while people decide in spendgate. Approving it there decides nothing: call asks.
import { jsonSchema, tool as aiTool } from "ai";
import type { Tool } from "spendgate";

export function forAI({ description, parameters, call, pending }: Tool) {
  return aiTool({
    description,
    inputSchema: jsonSchema(parameters),
    // The SDK asks once more before it executes, and refuses what needs no approval any more: what has asked goes on needing one.
    needsApproval: async (given, { messages, toolCallId }) =>
      isAsked(messages, toolCallId) || (await pending(given)),
    execute: call,
  });
}

function isAsked(messages: readonly { content: unknown }[], toolCallId: string): boolean {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? (content as Record<string, unknown>[]) : []));
  return parts.some((part) => part["type"] === "tool-approval-request" && part["toolCallId"] === toolCallId);
}
