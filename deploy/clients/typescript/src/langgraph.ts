import { getConfig, interrupt, task } from "@langchain/langgraph";

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
 * LangGraph gives the values with which a node was resumed to its interrupts by their order. So each
 * run interrupts where the runs before it did, also after the action passed: that people were asked is
 * a task's result, which the checkpointer keeps. The answer to one question never reaches another.
 *
 * In a tool, use `orRefusal(interrupting(refund)(input))`: a ToolNode has its own text for thrown
 * errors, which asks the model to try something else.
 */
export function interrupting<I, R>(
  guarded: Guarded<I, R>,
  { executed }: { executed?: (over: AlreadyExecuted) => R } = {},
): (input: I) => Promise<R> {
  return async (input) => {
    let ended: { value: R } | { problem: unknown } | undefined;
    /** ask returns what people have to decide; null once the call has ended. */
    const ask = async (): Promise<ApprovalRequest | null> => {
      let unread = "";
      for (;;) {
        try {
          ended = { value: await guarded(input) };
          return null;
        } catch (problem) {
          ended = problem instanceof AlreadyExecuted && executed ? { value: executed(problem) } : { problem };
          if (!(problem instanceof ApprovalPending) || !problem.approvalId) return null;
          if (problem.approval) {
            const { approval_id, action, action_hash, rule_ids } = problem.approval;
            return { approval_id, action, action_hash, rule_ids, message: problem.message };
          }
          if (problem.approvalId === unread) return null; // as after the last approval that a guard tries under one key
          unread = problem.approvalId; // the approval is new: the next round reads it from the service
        }
      }
    };
    for (;;) {
      ended = undefined;
      const request = await (getConfig() ? task("spendgate", ask)() : ask());
      if (request) interrupt<ApprovalRequest>(request);
      else if (ended) return over(ended);
      // Otherwise an earlier run of the node ended the call, and this one asks what became of it.
    }
  };
}

/** over returns or throws what a call ended with. */
function over<R>(ended: { value: R } | { problem: unknown }): R {
  if ("problem" in ended) throw ended.problem;
  return ended.value;
}
