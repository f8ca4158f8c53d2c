// OpenAI Agents SDK: a run is interrupted while people decide in spendgate. Approving the interruption decides nothing: call asks.
import { tool as agentsTool } from "@openai/agents";
import type { Tool } from "spendgate";

export function forAgents({ name, description, parameters, call, pending }: Tool) {
  const needsApproval = (_context: unknown, given: unknown) => pending(given);
  return agentsTool({ name, description, parameters: parameters as never, strict: false, needsApproval, execute: call });
}
