import { interrupt } from "@langchain/langgraph";

import { AlreadyExecuted, ApprovalPending } from "./errors.js";
import type { Guarded } from "./guard-types.js";
import type { RecordedAction } from "./types.js";

/** What an interrupt carries: what people have to decide in spendgate. */
export interface ApprovalRequest {
  approval_id: string;
  /** What was asked for. What agents wrote in it is only text. */
  action: RecordedAction;
  action_hash: string;
  rule_ids: string[];
  message: string;
}

/**
 * interrupting returns a function for a node or a tool of LangGraph that interrupts the
 * graph while people have to decide. The value with which the graph is resumed is not
 * believed: the service is asked again, and while nobody decided the graph is interrupted
 * again. Nodes run again from their beginning when they are resumed: what was carried out in
 * one before is not repeated, and returns what `executed` makes of that; without it, it
 * throws AlreadyExecuted, and the graph goes no further.
 *
 * In a tool, `orRefusal(interrupting(refund)(input))`: a ToolNode has its own words for what
 * is thrown, which ask the model to try something else.
 */
export function interrupting<I, R>(
  guarded: Guarded<I, R>,
  { executed }: { executed?: (over: AlreadyExecuted) => R } = {},
): (input: I) => Promise<R> {
  return async (input) => {
    for (;;) {
      try {
        return await guarded(input);
      } catch (problem) {
        if (problem instanceof AlreadyExecuted && executed) return executed(problem);
        if (!(problem instanceof ApprovalPending) || !problem.approvalId) throw problem;
        if (!problem.approval) continue; // it is new: asked again, the service shows it
        const { approval_id, action, action_hash, rule_ids } = problem.approval;
        interrupt<ApprovalRequest>({ approval_id, action, action_hash, rule_ids, message: problem.message });
      }
    }
  };
}
