import { interrupt } from "@langchain/langgraph";

import { AlreadyExecuted, ApprovalPending } from "./errors.js";
import type { Guarded } from "./guard-types.js";
import type { RecordedAction } from "./types.js";

/** The value of an interrupt: what people have to decide in spendgate. */
export interface ApprovalRequest {
  approval_id: string;
  /** The action to be approved. Text that agents wrote in it is only text. */
  action: RecordedAction;
  action_hash: string;
  rule_ids: string[];
  message: string;
}

/**
 * interrupting returns a function for a node or a tool of LangGraph that interrupts the
 * graph while people have to decide. The value with which the graph is resumed is not trusted:
 * the service is asked again, and the graph is interrupted again while nobody has decided. Nodes
 * run again from their beginning when they are resumed. An action that was carried out before is
 * not repeated: the function returns what `executed` makes of it or, without `executed`, throws
 * AlreadyExecuted, and the graph goes no further.
 *
 * In a tool, use `orRefusal(interrupting(refund)(input))`: a ToolNode has its own text for thrown
 * errors, which asks the model to try something else.
 */
export function interrupting<I, R>(
  guarded: Guarded<I, R>,
  { executed }: { executed?: (over: AlreadyExecuted) => R } = {},
): (input: I) => Promise<R> {
  return async (input) => {
    let unread = "";
    for (;;) {
      try {
        return await guarded(input);
      } catch (problem) {
        if (problem instanceof AlreadyExecuted && executed) return executed(problem);
        if (!(problem instanceof ApprovalPending) || !problem.approvalId) throw problem;
        if (!problem.approval) {
          if (problem.approvalId === unread) throw problem; // as after the last approval that a guard tries under one key
          unread = problem.approvalId; // the approval is new: the next round reads it from the service
          continue;
        }
        const { approval_id, action, action_hash, rule_ids } = problem.approval;
        interrupt<ApprovalRequest>({ approval_id, action, action_hash, rule_ids, message: problem.message });
      }
    }
  };
}
