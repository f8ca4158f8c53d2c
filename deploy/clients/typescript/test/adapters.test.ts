import assert from "node:assert/strict";
import { before, describe, it } from "node:test";

import { Annotation, Command, END, MemorySaver, START, Send, StateGraph, interrupt } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { AIMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import * as agents from "@openai/agents";
import * as ai from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

import { Gate, type Guarded, type Refusal, type Spendgate, AlreadyExecuted, ApprovalPending, memoryJournal, orRefusal } from "spendgate";
import { guardedTool as aiTool } from "spendgate/ai-sdk";
import { fileJournal } from "spendgate/journal";
import { type ApprovalRequest, interrupting } from "spendgate/langgraph";
import { guardedTool as agentsTool } from "spendgate/openai-agents";

import { action, bodies, common, serving } from "./answers.js";
import { as, refunds, skip, temporary, unique } from "./node.js";

interface Order {
  order: string;
  amount: string;
}
const order = z.object({ order: z.string(), amount: z.string() });

/** graphOf returns a graph that calls tools: all calls of a message in one task, or each in its own, as createAgent does. */
function graphOf(tools: ConstructorParameters<typeof ToolNode>[0], each = false) {
  const State = Annotation.Root({ messages: Annotation<AIMessage[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
  const graph = new StateGraph(State).addNode("tools", new ToolNode(tools)).addEdge("tools", END);
  return (
    each
      ? graph.addConditionalEdges(START, ({ messages }) =>
          (messages.at(-1)?.tool_calls ?? []).map((call) => new Send("tools", { messages, lg_tool_call: { ...call, type: "tool_call" } })),
        )
      : graph.addEdge(START, "tools")
  ).compile({ checkpointer: new MemorySaver() });
}

it("LangGraph: an approval that stays new is not asked for without end", async () => {
  const escalate = (approval_id: string) => ({ body: { ...bodies["allow"], decision: "escalate", approval_id } });
  // A proxy removes Idempotent-Replayed, so that what waits for the second approval looks new each time.
  const round = [escalate("apr_1"), { body: { ...bodies["approval"], status: "approved" } }, escalate("apr_2")];
  const { client, sent } = serving([...round, ...round]);
  const gate = new Gate({ client, journal: memoryJournal(), redeem: false });
  const refund = gate.guard<string, never>({ ...common, key: (order: string) => order } as never, () => assert.fail("it ran"));
  await assert.rejects(interrupting(refund)(action().idempotency_key), ApprovalPending);
  assert.equal(sent.length, 6);
});

describe("adapters", { skip, concurrency: true }, () => {
  let agent: Spendgate;
  let person: Spendgate;
  let gate: Gate;

  before(async () => {
    const policyId = await refunds(await as({ role: "author" }));
    agent = await as({ role: "agent" });
    person = await as({ role: "approver" });
    gate = new Gate({
      client: agent,
      journal: fileJournal(temporary()),
      defaults: { agent_id: "bot", policy_id: policyId, currency: "USD" },
    });
  });

  /** refunding returns a guarded function with a ledger of its own. */
  function refunding(): { ledger: string[]; refund: Guarded<Order, string> } {
    const ledger: string[] = [];
    const refund = gate.guard<Order, string>(
      {
        key: ({ order }) => `refund-${order}`,
        action_type: "refund",
        amount: ({ amount }) => amount,
        counterparty: ({ order }) => order,
      },
      async ({ order }, { check_id }) => {
        ledger.push(check_id);
        return `refunded ${order}`;
      },
    );
    return { ledger, refund };
  }

  async function approve(approvalId: string): Promise<void> {
    const { action_hash } = await person.approval(approvalId);
    await person.approve(approvalId, { action_hash });
  }

  it("LangGraph: an interrupt carries the approval, and what resumes it is not believed", async () => {
    const { ledger, refund } = refunding();
    const State = Annotation.Root({ order: Annotation<Order>, done: Annotation<string> });
    const graph = new StateGraph(State)
      .addNode("refund", async ({ order }) => ({ done: await interrupting(refund)(order) }))
      .addEdge(START, "refund")
      .addEdge("refund", END)
      .compile({ checkpointer: new MemorySaver() });
    const config = { configurable: { thread_id: unique() } };
    const asked = async (input: unknown) => {
      const { __interrupt__: interrupts } = (await graph.invoke(input as never, config)) as {
        __interrupt__?: { value: ApprovalRequest }[];
      };
      return interrupts?.[0]?.value;
    };

    const request = await asked({ order: { order: unique(), amount: "250.00" } });
    assert.ok(request);
    assert.equal(request.action.amount, "250");
    // Whoever resumes the graph says "approved". The service does not.
    assert.equal((await asked(new Command({ resume: { approved: true } })))?.approval_id, request.approval_id);
    assert.deepEqual(ledger, []);

    await approve(request.approval_id);
    const { done } = (await graph.invoke(new Command({ resume: "no" }) as never, config)) as { done: string };
    assert.match(done, /^refunded/);
    assert.equal(ledger.length, 1);

    // The node runs once more from its beginning, as after a crash before its checkpoint.
    await assert.rejects(
      graph.invoke({ order: { order: request.action.counterparty, amount: "250" } }, { configurable: { thread_id: unique() } }),
      AlreadyExecuted,
    );
    assert.equal(ledger.length, 1);
  });

  it("LangGraph: a node runs again from its beginning, and what was carried out in it is not repeated", async () => {
    const { ledger, refund } = refunding();
    const paying = interrupting(refund, { executed: ({ checkId }) => `done as ${checkId}` });
    const [small, large] = [unique(), unique()];
    const State = Annotation.Root({ done: Annotation<string[]> });
    const graph = new StateGraph(State)
      .addNode("refund", async () => ({
        done: [await paying({ order: small, amount: "10" }), await paying({ order: large, amount: "300" })],
      }))
      .addEdge(START, "refund")
      .addEdge("refund", END)
      .compile({ checkpointer: new MemorySaver() });
    const config = { configurable: { thread_id: unique() } };
    const first = (await graph.invoke({ done: [] }, config)) as unknown as { __interrupt__: { value: ApprovalRequest }[] };
    assert.equal(ledger.length, 1);
    await approve(first.__interrupt__[0]?.value.approval_id ?? "");
    const { done } = await graph.invoke(new Command({ resume: "approved" }) as never, config);
    assert.deepEqual(done, [`done as ${ledger[0]}`, `refunded ${large}`]);
    assert.equal(ledger.length, 2);
  });

  it("LangGraph: the answer to the approval never answers the question behind it", async () => {
    const { ledger, refund } = refunding();
    const State = Annotation.Root({ order: Annotation<Order>, done: Annotation<unknown[]> });
    const paying = interrupting(refund, { executed: () => "refunded before" });
    const graph = new StateGraph(State)
      .addNode("refund", async ({ order }) => ({ done: [interrupt("which account?"), await paying(order), interrupt("delete the account?")] }))
      .addEdge(START, "refund")
      .addEdge("refund", END)
      .compile({ checkpointer: new MemorySaver() });
    const config = { configurable: { thread_id: unique() } };
    const next = async (input: unknown) => {
      const state = (await graph.invoke(input as never, config)) as { __interrupt__?: { value: unknown }[]; done?: unknown[] };
      return state.__interrupt__ ? state.__interrupt__[0]?.value : state.done;
    };
    assert.equal(await next({ order: { order: unique(), amount: "250" } }), "which account?");
    const { approval_id } = (await next(new Command({ resume: "mine" }))) as ApprovalRequest;
    for (const premature of ["yes", "yes!"])
      assert.equal(((await next(new Command({ resume: premature }))) as ApprovalRequest).approval_id, approval_id);
    await approve(approval_id);
    assert.equal(await next(new Command({ resume: "yes, refund it" })), "delete the account?");
    assert.equal(ledger.length, 1);
    assert.deepEqual(await next(new Command({ resume: "no" })), ["mine", "refunded before", "no"]);
    assert.equal(ledger.length, 1);
  });

  for (const slow of [0, 150]) {
    it(`LangGraph: several tools of one node, one of which asks after ${slow} ms`, async () => {
      const { ledger, refund } = refunding();
      const answers: unknown[] = [];
      const paying = interrupting(refund, { executed: () => "refunded before" });
      const tools = [
        langchainTool(paying, { name: "refund", description: "Refunds an order.", schema: order }),
        langchainTool(
          async () => {
            await new Promise((wait) => setTimeout(wait, slow));
            answers.push(interrupt("delete the account?"));
            return "asked";
          },
          { name: "delete", description: "Deletes an account.", schema: z.object({}) },
        ),
      ];
      const graph = graphOf(tools);
      const config = { configurable: { thread_id: unique() } };
      const refunds = [unique(), unique()].map((id) => ({ id, name: "refund", args: { order: id, amount: "201" } }));
      const call = new AIMessage({ content: "", tool_calls: [...refunds, { id: "3", name: "delete", args: {} }] });
      let input: unknown = { messages: [call] };
      for (let asked = 0; ; asked++) {
        assert.ok(asked < 20, "it goes on asking");
        const state = (await graph.invoke(input as never, config)) as { __interrupt__?: { value: ApprovalRequest | string }[] };
        const question = state.__interrupt__?.[0]?.value;
        if (question === undefined) break;
        if (typeof question !== "string" && asked > 1) await approve(question.approval_id).catch(() => {}); // it may be approved
        input = new Command({ resume: typeof question === "string" ? "an answer to delete" : "an answer to refund" });
      }
      assert.equal(ledger.length, 2);
      assert.deepEqual([...new Set(answers)], ["an answer to delete"]);
    });
  }

  it("LangGraph: of tool calls in tasks of their own, each answer has its question", async () => {
    const { ledger, refund } = refunding();
    const answers: unknown[] = [];
    const tools = [
      langchainTool(interrupting(refund), { name: "refund", description: "Refunds an order.", schema: order }),
      langchainTool(async () => `${answers.push(interrupt("delete the account?"))}`, {
        name: "delete",
        description: "Deletes an account.",
        schema: z.object({}),
      }),
    ];
    const graph = graphOf(tools, true);
    const config = { configurable: { thread_id: unique() } };
    const orders = [unique(), unique()];
    const refunds = orders.map((id) => ({ id, name: "refund", args: { order: id, amount: "201" } }));
    const call = new AIMessage({ content: "", tool_calls: [...refunds, { id: "3", name: "delete", args: {} }] });
    type Question = { id: string; value: ApprovalRequest | string };
    const run = async (input: unknown) => {
      const { __interrupt__ = [] } = (await graph.invoke(input as never, config)) as { __interrupt__?: Question[] };
      return new Map(__interrupt__.map(({ id, value }) => [typeof value === "string" ? value : value.action.counterparty, { id, value }]));
    };
    let asked = await run({ messages: [call] });
    const answer = (question: string, value: string) => ({ [asked.get(question)?.id ?? ""]: value });
    assert.deepEqual([...asked.keys()].sort(), [...orders, "delete the account?"].sort());
    // Nobody has approved, whatever the answers say, and the answers to refunds reach no other tool.
    asked = await run(new Command({ resume: { ...answer(orders[1]!, "yes, refund it"), ...answer(orders[0]!, "yes, refund it") } }));
    assert.deepEqual([...asked.keys()].sort(), [...orders, "delete the account?"].sort());
    await approve((asked.get(orders[1]!)?.value as ApprovalRequest).approval_id);
    asked = await run(new Command({ resume: { ...answer(orders[1]!, "yes, refund it"), ...answer("delete the account?", "no") } }));
    assert.deepEqual([ledger.length, answers, [...asked.keys()]], [1, ["no"], [orders[0]]]);
    await approve((asked.get(orders[0]!)?.value as ApprovalRequest).approval_id);
    asked = await run(new Command({ resume: answer(orders[0]!, "yes") }));
    assert.deepEqual([ledger.length, answers, asked.size], [2, ["no"], 0]);
  });

  it("LangGraph: a person who denies ends the waiting, and a tool's model is told what is safe", async () => {
    const { ledger, refund } = refunding();
    const run = interrupting(refund);
    const tools = [
      langchainTool(async (input: Order) => JSON.stringify(await orRefusal(run(input))), {
        name: "refund",
        description: "Refunds an order.",
        schema: order,
      }),
    ];
    const graph = graphOf(tools);
    const config = { configurable: { thread_id: unique() } };
    const args = { order: unique(), amount: "201" };
    const call = new AIMessage({ content: "", tool_calls: [{ id: "1", name: "refund", args }] });
    const first = (await graph.invoke({ messages: [call] }, config)) as unknown as {
      __interrupt__: { value: ApprovalRequest }[];
    };
    const { approval_id = "", action_hash = "" } = first.__interrupt__[0]?.value ?? {};
    await person.deny(approval_id, { action_hash });
    const { messages } = await graph.invoke(new Command({ resume: { approved: true } }) as never, config);
    assert.match(String(messages.at(-1)?.content), /"state":"denied"/);
    assert.deepEqual(ledger, []);
  });

  it("LangGraph: in a tool of a ToolNode", async () => {
    const { ledger, refund } = refunding();
    const tools = [langchainTool(interrupting(refund), { name: "refund", description: "Refunds an order.", schema: order })];
    const graph = graphOf(tools);
    const config = { configurable: { thread_id: unique() } };
    const call = new AIMessage({
      content: "",
      tool_calls: [{ id: "1", name: "refund", args: { order: unique(), amount: "201" } }],
    });
    const first = (await graph.invoke({ messages: [call] }, config)) as unknown as {
      __interrupt__: { value: ApprovalRequest }[];
    };
    await approve(first.__interrupt__[0]?.value.approval_id ?? "");
    const { messages } = await graph.invoke(new Command({ resume: true }) as never, config);
    assert.match(String(messages.at(-1)?.content), /^refunded/);
    assert.equal(ledger.length, 1);
  });

  /** calls is a model of the OpenAI Agents SDK that calls the tool once and then repeats its output. */
  function calls(input: Order): agents.Model {
    const usage = new agents.Usage();
    return {
      getResponse: async ({ input: items }) => {
        const output = Array.isArray(items) ? items.find((item) => item.type === "function_call_result") : undefined;
        if (!output)
          return {
            usage,
            output: [
              { type: "function_call", callId: "1", name: "refund", arguments: JSON.stringify(input), status: "completed" },
            ],
          };
        const text = JSON.stringify((output as { output: unknown }).output);
        return {
          usage,
          output: [{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] }],
        };
      },
      getStreamedResponse: () => assert.fail("nothing is streamed"),
    };
  }

  it("OpenAI Agents SDK: a run is interrupted, and its approval is not believed", async () => {
    const { ledger, refund } = refunding();
    const tool = agents.tool({ name: "refund", description: "Refunds an order.", parameters: order, ...agentsTool(refund) });
    const input = { order: unique(), amount: "300" };
    const bot = new agents.Agent({ name: "bot", model: calls(input), tools: [tool] });
    const runner = new agents.Runner({ tracingDisabled: true });

    const told = async (decide = async () => {}) => {
      const interrupted = await runner.run(bot, "refund it");
      await decide();
      for (const interruption of interrupted.interruptions) interrupted.state.approve(interruption);
      return interrupted.interruptions.length ? runner.run(bot, interrupted.state) : interrupted;
    };
    assert.match(String((await told()).finalOutput), /pending/);
    assert.deepEqual(ledger, []);

    // People approve in spendgate while the run is interrupted, then in the SDK.
    const pending = await refund.pending(input);
    assert.match(String((await told(() => approve(pending?.approvalId ?? ""))).finalOutput), /refunded/);
    assert.match(String((await told()).finalOutput), /already_executed/);
    assert.equal(ledger.length, 1);
  });

  it("OpenAI Agents SDK: what needs nobody is carried out, what is blocked is not", async () => {
    const { ledger, refund } = refunding();
    const tool = agents.tool({ name: "refund", description: "Refunds an order.", parameters: order, ...agentsTool(refund) });
    const runner = new agents.Runner({ tracingDisabled: true });
    for (const [amount, want] of [
      ["10", /refunded/],
      ["501", /refused/],
    ] as const) {
      const bot = new agents.Agent({ name: "bot", model: calls({ order: unique(), amount }), tools: [tool] });
      assert.match(String((await runner.run(bot, "refund it")).finalOutput), want);
    }
    assert.equal(ledger.length, 1);
  });

  it("AI SDK: needsApproval follows the service, and execute is guarded", async () => {
    const { ledger, refund } = refunding();
    const tools = { refund: ai.tool({ description: "Refunds an order.", inputSchema: order, ...aiTool(refund) }) };
    let input = { order: unique(), amount: "250.5" };
    const none = { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 };
    const answer = (content: object[], unified: "tool-calls" | "stop") =>
      ({
        content,
        finishReason: { unified, raw: undefined },
        usage: { inputTokens: none, outputTokens: { total: 0, text: 0, reasoning: 0 } },
        warnings: [],
      }) as never;
    const model = new MockLanguageModelV3({
      doGenerate: async ({ prompt }) =>
        prompt.at(-1)?.role === "tool"
          ? answer([{ type: "text", text: "done" }], "stop")
          : answer([{ type: "tool-call", toolCallId: "1", toolName: "refund", input: JSON.stringify(input) }], "tool-calls"),
    });
    /**
     * told has the model call the tool, approves each request for approval in the SDK's way, and returns the tool's output.
     * People decide in spendgate before the SDK's approval is sent.
     */
    const told = async (decide = async () => {}): Promise<string | Refusal> => {
      const messages: ai.ModelMessage[] = [{ role: "user", content: "refund it" }];
      const first = await ai.generateText({ model, tools, messages });
      const requests = first.content.filter((part) => part.type === "tool-approval-request");
      const result = first.toolResults[0];
      if (result) return result.output as string | Refusal;
      const responses = requests.map(({ approvalId }) => ({
        type: "tool-approval-response" as const,
        approvalId,
        approved: true,
      }));
      messages.push(...first.response.messages, { role: "tool", content: responses });
      await decide();
      const second = await ai.generateText({ model, tools, messages });
      const outputs = second.response.messages.flatMap(({ content }) => (Array.isArray(content) ? (content as object[]) : []));
      const found = outputs.find((part) => "output" in part) as { output: { value: string | Refusal } };
      return found.output.value;
    };

    const pending = (await told()) as Refusal;
    assert.equal(pending.state, "pending");
    assert.deepEqual(ledger, []);
    // The SDK asks while the service waits; people approve in spendgate first, then in the SDK.
    assert.match((await told(() => approve(pending.approval_id ?? ""))) as string, /^refunded/);
    assert.equal(((await told()) as Refusal).state, "already_executed");
    assert.equal(ledger.length, 1);

    // The SDK's approval first: the call is pending, and the same call passes once people have approved.
    input = { order: unique(), amount: "251" };
    await approve(((await told()) as Refusal).approval_id ?? "");
    assert.match((await told()) as string, /^refunded/);
    assert.equal(ledger.length, 2);
  });
});
