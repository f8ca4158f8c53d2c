// LangChain 1: a middleware that guards the calls of a tool which exists already. The agent needs a checkpointer.
import { ToolMessage, createMiddleware } from "langchain";
import { type Gate, type Plan, type Schema, tool } from "spendgate";
import { interrupting } from "spendgate/langgraph";

export function guarding<I>(gate: Gate, name: string, schema: Schema<I>, plan: Plan<I>) {
  return createMiddleware({
    name: "spendgate",
    wrapToolCall: async (request, handler) => {
      if (request.toolCall.name !== name) return handler(request);
      // A ToolMessage of status "error", into which LangChain turns what a tool throws, is in doubt.
      const carry = gate.guard(plan, () => handler(request), {
        report: (message) => ({ reference: String((message as ToolMessage).content) }),
      });
      const call = interrupting(tool(carry, { name, description: "", schema }));
      return new ToolMessage({ content: JSON.stringify(await call(request.toolCall.args)), tool_call_id: request.toolCall.id ?? "" });
    },
  });
}
