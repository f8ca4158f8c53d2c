import assert from "node:assert/strict";
import { before, describe, it } from "node:test";

import { Annotation, Command, END, MemorySaver, START, Send, StateGraph, interrupt } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { AIMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { Agent as MastraAgent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { InMemoryStore } from "@mastra/core/storage";
import * as agents from "@openai/agents";
import * as ai from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { createAgent, fakeModel } from "langchain";
import { z } from "zod";

import { Gate, type Guarded, type Plan, type Spendgate, type Told, type Tool, tool } from "spendgate";
import { interrupting } from "spendgate/langgraph";

import { forAI } from "../examples/ai-sdk.js";
import { guarding } from "../examples/langchain.js";
import { forGraph } from "../examples/langgraph.js";
import { forMastra } from "../examples/mastra.js";
import { forAgents } from "../examples/openai-agents.js";
import { as, refunds, skip, unique } from "./node.js";

const order = z.object({ order: z.string(), amount: z.string() });
type Order = z.infer<typeof order>;

const plan: Plan<Order> = {
  payment_key: ({ order }) => `refund-${order}`,
  action_type: "refund",
  amount: ({ amount }) => amount,
  counterparty: ({ order }) => order,
};

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

const thread = () => ({ configurable: { thread_id: unique() } });
type Questions = { __interrupt__?: { id: string; value: Told | string }[] };

describe("tools", { skip, concurrency: true }, () => {
  let person: Spendgate;
  let gate: Gate;

  before(async () => {
    const policyId = await refunds(await as({ role: "author" }));
    person = await as({ role: "approver" });
    const client = await as({ role: "gateway", principal: unique() });
    gate = new Gate({ client, defaults: { agent_id: "bot", policy_id: policyId, currency: "USD" } });
  });

  /** refunding returns a guarded function with a ledger of its own, and its tool. */
  function refunding(): { ledger: string[]; refund: Guarded<Order, string>; refunding: Tool } {
    const ledger: string[] = [];
    const refund = gate.guard(plan, async ({ order }, { execution_id }) => {
      ledger.push(execution_id);
      return `refunded ${order}`;
    });
    return { ledger, refund, refunding: tool(refund, { name: "refund", description: "Refunds an order.", schema: order }) };
  }

  async function approve({ approval_id = "" }: Partial<Told>): Promise<void> {
    const { action_hash } = await person.approval(approval_id);
    await person.approve(approval_id, { action_hash });
  }

  it("a tool says what came of a call, and asks nothing with arguments that are wrong", async () => {
    const { ledger, refunding: { call, pending, parameters } } = refunding();
    assert.deepEqual(Object.keys(parameters["properties"] as object), ["order", "amount"]);
    const id = unique();
    for (const [given, state, said] of [
      [{ order: id }, "invalid", /amount: .*expected string/],
      [{ order: id, amount: "0" }, "invalid", /the amount is 0/],
      [{ order: id, amount: "501" }, "refused", /exceeds the limit of 500.00 USD/],
      [{ order: id, amount: "20" }, "executed", /^refunded/],
      [{ order: id, amount: "20" }, "executed", /^Carried out before, as refunded .* It is not repeated\.$/],
      [{ order: id, amount: "21" }, "refused", /payment_differs/],
    ] as const) {
      const told = await call(given);
      assert.deepEqual([told.state, said.test(told.message)], [state, true], told.message);
    }
    const large = { order: unique(), amount: "201" };
    assert.deepEqual([await pending(large), (await call(large)).state], [true, "pending"]);
    await approve(await call(large));
    assert.deepEqual([await pending({}), (await call(large)).state, ledger.length], [false, "executed", 2]);
  });

  it("a tool says what failed and what is in doubt", async () => {
    for (const [body, state] of [
      [() => ({ declined: true }), "failed"],
      [() => Promise.reject(new RangeError("no")), "failed"],
      [() => Promise.reject(new Error("lost")), "in_doubt"],
    ] as const) {
      const refund = gate.guard<Order, object>(plan, body, {
        failedIf: (value) => "declined" in value,
        failedOn: (problem) => problem instanceof RangeError,
      });
      const { call } = tool(refund, { name: "refund", description: "", schema: order });
      const given = { order: unique(), amount: "10" };
      assert.equal((await call(given)).state, state);
      assert.equal((await call(given)).state, state); // what failed may be tried again, and what is in doubt is not
    }
  });

  it("LangGraph: the answer to the approval answers no other question, and is not believed", async () => {
    const { ledger, refunding: refund } = refunding();
    const State = Annotation.Root({ order: Annotation<Order>, done: Annotation<unknown[]> });
    const paying = interrupting(refund);
    const graph = new StateGraph(State)
      .addNode("refund", async ({ order }) => ({
        done: [interrupt("which account?"), (await paying(order)).message, interrupt("delete the account?")],
      }))
      .addEdge(START, "refund")
      .addEdge("refund", END)
      .compile({ checkpointer: new MemorySaver() });
    const config = thread();
    const next = async (input: unknown) => {
      const state = (await graph.invoke(input as never, config)) as Questions & { done?: unknown[] };
      return state.__interrupt__ ? state.__interrupt__[0]?.value : state.done;
    };
    const given = { order: unique(), amount: "250" };
    assert.equal(await next({ order: given }), "which account?");
    const question = (await next(new Command({ resume: "mine" }))) as Told;
    for (const premature of ["yes", { approved: true }])
      assert.equal(((await next(new Command({ resume: premature }))) as Told).approval_id, question.approval_id);
    assert.deepEqual(ledger, []);
    await approve(question);
    assert.equal(await next(new Command({ resume: "yes, refund it" })), "delete the account?");
    assert.equal(ledger.length, 1);
    assert.deepEqual(await next(new Command({ resume: "no" })), ["mine", `refunded ${given.order}`, "no"]);
    // The node runs once more from its beginning, as after a crash before its checkpoint.
    assert.match((await interrupting(refund)(given)).message, /^Carried out before/);
    assert.equal(ledger.length, 1);
  });

  for (const slow of [0, 150]) {
    it(`LangGraph: several tools of one node, one of which asks after ${slow} ms`, async () => {
      const { ledger, refunding: refund } = refunding();
      const answers: unknown[] = [];
      const tools = [
        forGraph(refund),
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
      const config = thread();
      const refunds = [unique(), unique()].map((id) => ({ id, name: "refund", args: { order: id, amount: "201" } }));
      const call = new AIMessage({ content: "", tool_calls: [...refunds, { id: "3", name: "delete", args: {} }] });
      let input: unknown = { messages: [call] };
      for (let asked = 0; ; asked++) {
        assert.ok(asked < 20, "it goes on asking");
        const question = ((await graph.invoke(input as never, config)) as Questions).__interrupt__?.[0]?.value;
        if (question === undefined) break;
        if (typeof question !== "string" && asked > 1) await approve(question).catch(() => {}); // it may be approved
        input = new Command({ resume: typeof question === "string" ? "an answer to delete" : "an answer to refund" });
      }
      assert.equal(ledger.length, 2);
      assert.deepEqual([...new Set(answers)], ["an answer to delete"]);
    });
  }

  it("LangGraph: of tool calls in tasks of their own, each answer has its question", async () => {
    const { ledger, refunding: refund } = refunding();
    const answers: unknown[] = [];
    const tools = [
      forGraph(refund),
      langchainTool(async () => `${answers.push(interrupt("delete the account?"))}`, {
        name: "delete",
        description: "Deletes an account.",
        schema: z.object({}),
      }),
    ];
    const graph = graphOf(tools, true);
    const config = thread();
    const orders = [unique(), unique()];
    const refunds = orders.map((id) => ({ id, name: "refund", args: { order: id, amount: "201" } }));
    const call = new AIMessage({ content: "", tool_calls: [...refunds, { id: "3", name: "delete", args: {} }] });
    const run = async (input: unknown) => {
      const { __interrupt__ = [] } = (await graph.invoke(input as never, config)) as Questions;
      const asks = __interrupt__.map(async ({ id, value }) => {
        const of = typeof value === "string" ? value : (await person.approval(value.approval_id ?? "")).action.counterparty;
        return [of, { id, value }] as const;
      });
      return new Map(await Promise.all(asks));
    };
    let asked = await run({ messages: [call] });
    const answer = (question: string, value: string) => ({ [asked.get(question)?.id ?? ""]: value });
    assert.deepEqual([...asked.keys()].sort(), [...orders, "delete the account?"].sort());
    // Nobody has approved, whatever the answers say, and the answers to refunds reach no other tool.
    asked = await run(new Command({ resume: { ...answer(orders[1]!, "yes, refund it"), ...answer(orders[0]!, "yes, refund it") } }));
    assert.deepEqual([...asked.keys()].sort(), [...orders, "delete the account?"].sort());
    await approve(asked.get(orders[1]!)?.value as Told);
    asked = await run(new Command({ resume: { ...answer(orders[1]!, "yes, refund it"), ...answer("delete the account?", "no") } }));
    assert.deepEqual([ledger.length, answers, [...asked.keys()]], [1, ["no"], [orders[0]]]);
    await approve(asked.get(orders[0]!)?.value as Told);
    asked = await run(new Command({ resume: answer(orders[0]!, "yes") }));
    assert.deepEqual([ledger.length, answers, asked.size], [2, ["no"], 0]);
  });

  it("LangChain: an agent whose tool waits for people, and is told what they decided", async () => {
    for (const isApproved of [true, false]) {
      const { ledger, refunding: refund } = refunding();
      const model = fakeModel().respondWithTools([{ id: "1", name: "refund", args: { order: unique(), amount: "300" } }]).respond(new AIMessage("done"));
      const agent = createAgent({ model, tools: [forGraph(refund)], checkpointer: new MemorySaver() });
      const config = thread();
      const first = (await agent.invoke({ messages: [{ role: "user", content: "refund it" }] }, config)) as unknown as Questions;
      const question = first.__interrupt__?.[0]?.value as Told;
      const { action_hash } = await person.approval(question.approval_id ?? "");
      await person[isApproved ? "approve" : "deny"](question.approval_id ?? "", { action_hash });
      const { messages } = await agent.invoke(new Command({ resume: "yes" }) as never, config);
      assert.equal(messages.at(-1)?.content, "done");
      assert.match(String(messages.at(-2)?.content), isApproved ? /"state":"executed"/ : /"state":"denied"/);
      assert.equal(ledger.length, isApproved ? 1 : 0);
    }
  });

  it("LangChain: a middleware guards a tool that exists", async () => {
    const ledger: string[] = [];
    const paying = langchainTool(
      async ({ order }: Order) => {
        if (order.startsWith("lost")) throw new Error("nobody knows");
        return `refund-${ledger.push(order)}`;
      },
      { name: "refund", description: "Refunds an order.", schema: order },
    );
    const again = { order: unique(), amount: "10" };
    const large = { order: unique(), amount: "300" };
    const run = async (args: object, decide = async (_asked: Told) => {}) => {
      const model = fakeModel().respondWithTools([{ id: "1", name: "refund", args }]).respond(new AIMessage("done"));
      const middleware = [guarding(gate, "refund", order, plan)];
      const agent = createAgent({ model, tools: [paying], middleware, checkpointer: new MemorySaver() });
      const config = thread();
      let state = (await agent.invoke({ messages: [{ role: "user", content: "refund it" }] }, config)) as any;
      if (state.__interrupt__) {
        await decide(state.__interrupt__[0].value);
        state = await agent.invoke(new Command({ resume: "yes" }) as never, config);
      }
      return JSON.parse(String(state.messages.at(-2)?.content)) as Told;
    };
    assert.equal((await run({ order: unique() })).state, "invalid");
    assert.deepEqual(await run(again), { state: "executed", message: "Carried out, as refund-1.", reference: "refund-1" });
    assert.match((await run(again)).message, /^Carried out before, as refund-1/);
    assert.equal((await run({ order: `lost-${unique()}`, amount: "10" })).state, "in_doubt");
    assert.equal((await run(large, approve)).state, "executed");
    assert.deepEqual(ledger, [again.order, large.order]);
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
    const { ledger, refunding: refund } = refunding();
    const runner = new agents.Runner({ tracingDisabled: true });
    const told = async (input: Order, decide = async () => {}) => {
      const bot = new agents.Agent({ name: "bot", model: calls(input), tools: [forAgents(refund)] });
      const interrupted = await runner.run(bot, "refund it");
      await decide();
      for (const interruption of interrupted.interruptions) interrupted.state.approve(interruption);
      return String((interrupted.interruptions.length ? await runner.run(bot, interrupted.state) : interrupted).finalOutput);
    };
    const input = { order: unique(), amount: "300" };
    assert.match(await told(input), /pending/);
    assert.deepEqual(ledger, []);
    // People approve in spendgate while the run is interrupted, then in the SDK.
    assert.match(await told(input, async () => approve(await refund.call(input))), /refunded/);
    assert.match(await told(input), /Carried out before/);
    assert.match(await told({ order: unique(), amount: "10" }), /refunded/);
    assert.match(await told({ order: unique(), amount: "501" }), /refused/);
    assert.match(await told({ order: unique() } as Order), /invalid/);
    assert.equal(ledger.length, 2);
  });

  const none = { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 };
  const answer = (content: object[], unified: "tool-calls" | "stop") =>
    ({
      content,
      finishReason: { unified, raw: undefined },
      usage: { inputTokens: none, outputTokens: { total: 0, text: 0, reasoning: 0 } },
      warnings: [],
    }) as never;

  /** calling returns a model of the AI SDK that calls the tool once. */
  const calling = (input: () => Order) =>
    new MockLanguageModelV3({
      doGenerate: async ({ prompt }) =>
        prompt.at(-1)?.role === "tool"
          ? answer([{ type: "text", text: "done" }], "stop")
          : answer([{ type: "tool-call", toolCallId: "1", toolName: "refund", input: JSON.stringify(input()) }], "tool-calls"),
    });

  it("AI SDK: needsApproval follows the service, and execute is guarded", async () => {
    const { ledger, refunding: refund } = refunding();
    const tools = { refund: forAI(refund) };
    let input: Order = { order: unique(), amount: "250.5" };
    const model = calling(() => input);
    /**
     * told has the model call the tool, approves each request for approval in the SDK's way, and returns the tool's output.
     * People decide in spendgate before the SDK's approval is sent.
     */
    const told = async (decide = async () => {}): Promise<Told> => {
      const messages: ai.ModelMessage[] = [{ role: "user", content: "refund it" }];
      const first = await ai.generateText({ model, tools, messages });
      const requests = first.content.filter((part) => part.type === "tool-approval-request");
      const result = first.toolResults[0];
      if (result) return result.output as Told;
      const responses = requests.map(({ approvalId }) => ({
        type: "tool-approval-response" as const,
        approvalId,
        approved: true,
      }));
      messages.push(...first.response.messages, { role: "tool", content: responses });
      await decide();
      const second = await ai.generateText({ model, tools, messages });
      const outputs = second.response.messages.flatMap(({ content }) => (Array.isArray(content) ? (content as object[]) : []));
      const found = outputs.find((part) => "output" in part) as { output: { value: Told } };
      return found.output.value;
    };

    const pending = await told();
    assert.equal(pending.state, "pending");
    assert.deepEqual(ledger, []);
    // The SDK asks while the service waits; people approve in spendgate first, then in the SDK.
    assert.match((await told(() => approve(pending))).message, /^refunded/);
    assert.match((await told()).message, /^Carried out before/);
    assert.equal(ledger.length, 1);

    // The SDK's approval first: the call is pending, and the same call passes once people have approved.
    input = { order: unique(), amount: "251" };
    await approve(await told());
    assert.match((await told()).message, /^refunded/);
    assert.equal(ledger.length, 2);
  });

  it("Mastra: a tool is suspended while people decide, and goes on when they have", async () => {
    const { ledger, refunding: refund } = refunding();
    let input: Order = { order: unique(), amount: "250" };
    const bot = new MastraAgent({
      id: "bot",
      name: "bot",
      instructions: "Refund what is asked for.",
      model: calling(() => input) as never,
      tools: { refund: forMastra(refund) },
    });
    const agent = new Mastra({ agents: { bot }, storage: new InMemoryStore(), logger: false }).getAgent("bot");
    const output = (result: any): Told => result.toolResults[0].payload.result;
    const first = (await agent.generate("refund it")) as any;
    assert.equal(first.finishReason, "suspended");
    const asked = first.suspendPayload.suspendPayload as Told;
    const again = (await agent.resumeGenerate({ approved: true }, { runId: first.runId })) as any;
    assert.equal(again.finishReason, "suspended");
    assert.deepEqual(ledger, []);
    await approve(asked);
    assert.match(output(await agent.resumeGenerate({}, { runId: again.runId })).message, /^refunded/);
    assert.match(output(await agent.generate("refund it")).message, /^Carried out before/);
    input = { order: unique() } as Order;
    assert.match(output(await agent.generate("refund it")).message, /validation failed/); // by Mastra
    assert.equal(ledger.length, 1);
  });
});
