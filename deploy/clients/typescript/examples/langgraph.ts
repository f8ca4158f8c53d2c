// LangGraph: a tool for a ToolNode, or for createAgent of LangChain. The graph needs a checkpointer.
import { tool as graphTool } from "@langchain/core/tools";
import type { Tool } from "spendgate";
import { interrupting } from "spendgate/langgraph";

export function forGraph(refunding: Tool) {
  const { name, description, parameters } = refunding;
  const call = interrupting(refunding);
  return graphTool(async (given: unknown) => JSON.stringify(await call(given)), { name, description, schema: parameters });
}
