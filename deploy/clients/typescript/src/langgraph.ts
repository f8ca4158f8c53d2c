import { getConfig, interrupt, task } from "@langchain/langgraph";

import type { Told, Tool } from "./tool.js";

/**
 * interrupting returns a function for a node or a tool of LangGraph that interrupts the graph while people have to decide.
 * The value with which the graph is resumed answers that question and no other, and is not believed: the service is asked
 * again. A node runs again from its beginning when it is resumed, and LangGraph gives the values to its interrupts by their
 * order. So what each call was told is a task's result, which the checkpointer keeps: each run interrupts where the one before did.
 */
export function interrupting({ call }: Pick<Tool, "call">): (given: unknown) => Promise<Told> {
  return async (given) => {
    for (;;) {
      const told = await (getConfig() ? task("spendgate", call)(given) : call(given));
      if (told.state !== "pending") return told;
      interrupt<Told>(told);
    }
  };
}
