import assert from "node:assert/strict";
import { type IncomingHttpHeaders, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { it } from "node:test";

import { APIError, NoAnswer, NoDecision, Spendgate } from "spendgate";

const secret = "svc_live_that_nobody_sees";
const action = { agent_id: "a", policy_id: "p", action_type: "refund" as const, amount: 1, currency: "USD", counterparty: "c" };

/** silent runs a test with the address of a server that answers nothing, or only 400, and with the headers that the server gets. */
async function silent(run: (baseUrl: string, got: IncomingHttpHeaders[]) => Promise<void>, refuses = false): Promise<void> {
  const got: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    got.push(request.headers);
    if (refuses) response.writeHead(400).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, got);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

it("keys are not printed, nor in errors", async () => {
  const client = new Spendgate({ baseUrl: "http://127.0.0.1:1", apiKey: secret, adminKey: secret, attempts: 1 });
  const problem = await client.check(action).catch((problem: unknown) => problem);
  assert.ok(problem instanceof NoDecision);
  for (const printed of [client, client.admin, problem]) {
    assert.ok(!inspect(printed, { showHidden: true, depth: 9 }).includes(secret) && !JSON.stringify(printed).includes(secret));
  }
  for (const wrong of [
    { baseUrl: "ftp://host" },
    { baseUrl: "http://user:password@host" },
    { baseUrl: "http://host?key=1" },
    { baseUrl: "http://host/v1/" },
    { baseUrl: "http://host", apiKey: `${secret}\n` },
  ]) {
    assert.throws(
      () => new Spendgate(wrong),
      (refused: Error) => refused instanceof TypeError && !refused.message.includes(secret),
    );
  }
});

it("a deadline ends a call with all its attempts, and so does a signal", () =>
  silent(async (baseUrl, got) => {
    const client = new Spendgate({ baseUrl, attemptTimeout: 200, attempts: 1_000_000 });
    await assert.rejects(client.check(action, { timeout: 3_000 }), NoDecision);
    assert.ok(got.length > 1, `${got.length} attempts`);

    const reason = new Error("nobody waits any more");
    const patient = new Spendgate({ baseUrl });
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 50);
    await assert.rejects(
      patient.self({ signal: controller.signal }),
      (problem) => problem instanceof NoAnswer && problem.cause === reason,
    );
    await assert.rejects(patient.self({ signal: AbortSignal.abort(reason) }), NoAnswer);
  }));

it("a trace is continued, if it is one", () =>
  silent(async (baseUrl, got) => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (const [trace, want] of [
      [{ traceparent, tracestate: "a=1" }, [traceparent, "a=1"]],
      [{ traceparent, tracestate: "a=\n" }, [traceparent, undefined]],
      [{ traceparent: `ff${traceparent.slice(2)}`, tracestate: "a=1" }, [undefined, undefined]],
    ] as const) {
      await assert.rejects(new Spendgate({ baseUrl, attempts: 1, trace: () => trace }).health(), APIError);
      const last = got.at(-1);
      assert.deepEqual([last?.["traceparent"], last?.["tracestate"]], want);
    }
  }, true));
