import { interrupt } from "@langchain/langgraph";

import { ApprovalPending } from "./errors.js";
import type { Guarded } from "./guard.js";
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
 * again. Nodes run again from their beginning: what was carried out is not repeated, and
 * throws AlreadyExecuted.
 */
export function interrupting<I, R>(guarded: Guarded<I, R>): (input: I) => Promise<R> {
  return async (input) => {
    for (;;) {
      try {
        return await guarded(input);
      } catch (problem) {
        if (!(problem instanceof ApprovalPending) || !problem.approvalId) throw problem;
        if (!problem.approval) continue; // it is new: asked again, the service shows it
        const { approval_id, action, action_hash, rule_ids } = problem.approval;
        interrupt<ApprovalRequest>({ approval_id, action, action_hash, rule_ids, message: problem.message });
      }
    }
  };
}
