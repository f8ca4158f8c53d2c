// A server and an agent of the protocol's TypeScript SDK, for TestTypeScriptSDK:
//   node sdk.mjs server VERSION         a server over standard input and output that speaks only that version
//   node sdk.mjs agent VERSION ADDRESS  an agent that prints what it is told, as JSON
const at = (part) => import(`${process.env.TEST_NODE_MODULES}/@modelcontextprotocol/${part}.mjs`);
const [role, version, address] = process.argv.slice(2);
const newest = "2026-07-28";
const sure = { type: "object", properties: { sure: { type: "boolean" } } };

async function serve() {
  const { McpServer, fromJsonSchema, inputRequired, inputResponse } = await at("server/dist/index");
  const { serveStdio, StdioServerTransport } = await at("server/dist/stdio");
  let paid = 0;
  const make = () => {
    const server = new McpServer({ name: "psp", version: "1" }, { capabilities: { tools: {} }, instructions: "psp's own" });
    const add = (name, properties, call, annotations = {}) =>
      server.registerTool(name, { inputSchema: fromJsonSchema({ type: "object", properties }), annotations }, call);
    add("refund", { charge: { type: "string" }, amount: { type: "integer" } }, async ({ charge }) => ({
      content: [{ type: "text", text: `paid ${charge}` }],
      structuredContent: { id: `re_${++paid}` },
    }));
    const asking = (context) => {
      const answer = context.mcpReq.inputResponses?.sure;
      if (answer === undefined)
        return inputRequired({ inputRequests: { sure: inputRequired.elicit({ message: "sure?", requestedSchema: sure }) } });
      return { content: [{ type: "text", text: JSON.stringify(answer) }] };
    };
    add("payout", { charge: { type: "string" }, amount: { type: "integer" } }, async (_, context) => asking(context));
    add("confirm", {}, async (_, context) => asking(context), { readOnlyHint: true });
    add("echo", { text: { type: "string" } }, async ({ text }) => ({ content: [{ type: "text", text }] }), { readOnlyHint: true });
    return server;
  };
  if (version === newest) serveStdio(make, { legacy: "reject" });
  else await make().connect(new StdioServerTransport());
}

async function ask() {
  const { Client, StreamableHTTPClientTransport } = await at("client/dist/index");
  const agent = new Client(
    { name: "agent", version: "1" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: version === newest ? { pin: newest } : "legacy" } },
  );
  agent.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { sure: true } }));
  await agent.connect(new StreamableHTTPClientTransport(new URL(address)));
  const call = (name, args) => agent.callTool({ name, arguments: args }).catch((problem) => ({ problem: problem.message }));
  const said = {
    version: agent.getNegotiatedProtocolVersion?.(),
    instructions: agent.getInstructions(),
    tools: (await agent.listTools()).tools.map((tool) => tool.name),
    echo: await call("echo", { text: "hé" }),
    confirm: await call("confirm", {}),
    refund: await call("refund", { charge: `ch_${version}`, amount: 1 }),
    again: await call("refund", { charge: `ch_${version}`, amount: 1 }),
    unknown: await call("refund", { charge: "ch_2", amount: 1, tip: 5 }),
    payout: await call("payout", { charge: `po_${version}`, amount: 1 }),
  };
  console.log(JSON.stringify(said));
  await agent.close();
}

await (role === "server" ? serve() : ask());
