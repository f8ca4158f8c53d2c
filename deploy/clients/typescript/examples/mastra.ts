// Mastra: a tool is suspended while people decide in spendgate. What it is resumed with decides nothing: call asks.
import { createTool } from "@mastra/core/tools";
import type { Tool } from "spendgate";

export function forMastra({ name, description, parameters, call }: Tool) {
  return createTool({
    id: name,
    description,
    inputSchema: parameters as never,
    execute: async (given: unknown, context) => {
      const told = await call(given);
      if (told.state === "pending") await context.agent?.suspend(told);
      return told;
    },
  });
}
