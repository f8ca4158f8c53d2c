import assert from "node:assert/strict";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { compareAmounts } from "spendgate";

// A server that plays the exchanges of a conformance case (docs/clients/conformance.md).

export type Members = Record<string, unknown>;

export interface Exchange {
  expect?: {
    method: string;
    path: string;
    query?: Record<string, string>;
    headers?: Record<string, string | null>;
    body?: unknown;
    contains?: string[];
  };
  status?: number;
  headers?: [string, string][];
  body?: unknown;
  change?: Members;
  text?: string;
  cut?: number;
  fail?: "hang_up" | "stall";
  times?: number;
  bare?: boolean;
}

/** compare throws if a wanted member or element is missing or differs. */
export function compare(where: string, want: unknown, got: unknown): void {
  if (where.endsWith(".amount") && typeof want === "string") {
    assert.ok(typeof got === "string" && compareAmounts(got, want) === 0, `${where}: ${String(got)}, want ${want}`);
  } else if (Array.isArray(want)) {
    assert.ok(Array.isArray(got) && got.length === want.length, `${where}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
    want.forEach((element, i) => compare(`${where}[${i}]`, element, got[i]));
  } else if (typeof want === "object" && want !== null) {
    assert.ok(typeof got === "object" && got !== null, `${where}: ${JSON.stringify(got)}, want an object`);
    for (const [name, member] of Object.entries(want)) compare(`${where}.${name}`, member, (got as Members)[name]);
  } else if (want === "*") {
    assert.ok(typeof got === "string" && got.trim() !== "", `${where}: ${String(got)}, want any text`);
  } else {
    assert.deepEqual(got, want, where);
  }
}

export class Scripted {
  readonly #exchanges: Exchange[];
  readonly #bodies: Record<string, Members>;
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #next = 0;
  /** The body of the last request. */
  last = "";
  #before = "";
  readonly #problems: unknown[] = [];

  constructor(exchanges: Exchange[], bodies: Record<string, Members>) {
    this.#exchanges = exchanges.flatMap((exchange) => Array<Exchange>(exchange.times ?? 1).fill(exchange));
    this.#bodies = bodies;
  }

  /** play runs a function that sends requests, and throws how they differ from the case. */
  async play(run: (url: string) => Promise<void>): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    try {
      await run(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`);
    } finally {
      this.#server.closeAllConnections();
      this.#server.close();
    }
    if (this.#problems.length) throw this.#problems[0];
    assert.equal(this.#next, this.#exchanges.length, "exchanges");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk as string;
    const exchange = this.#exchanges[this.#next++];
    const sent = `${request.method} ${request.url} ${body}`;
    try {
      assert.ok(exchange, `one request more: ${sent}`);
      if (exchange.expect) expect(exchange.expect, request, body);
      else assert.equal(sent, this.#before, "sent again");
    } catch (problem) {
      this.#problems.push(problem);
    }
    [this.#before, this.last] = [sent, body];
    if (!exchange || exchange.fail === "hang_up") return void request.socket.destroy();
    if (exchange.fail !== "stall") this.#answer(exchange, request, response);
  }

  #answer(
    { status = 200, headers = [], body, change, text, cut, bare }: Exchange,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    const content = typeof body === "string" ? this.#bodies[body] : body;
    const whole = Buffer.from(text ?? JSON.stringify(change ? { ...(content as Members), ...change } : content));
    const type: [string, string][] = headers.some(([name]) => name === "Content-Type")
      ? []
      : [["Content-Type", "application/json"]];
    const length: [string, string][] = status === 204 ? [] : [["Content-Length", String(whole.length)]];
    const named: [string, string][] = bare || headers.some(([name]) => name === "X-Request-Id") ? [] : [["X-Request-Id", "req_1"]];
    response.sendDate = false; // unless the exchange has one
    response.writeHead(status, [...type, ...length, ...named, ...headers].flat());
    if (!cut) return void response.end(whole);
    response.write(whole.subarray(0, cut), () => request.socket.destroySoon());
  }
}

function expect(want: NonNullable<Exchange["expect"]>, request: IncomingMessage, body: string): void {
  const [path, query = ""] = (request.url ?? "").split("?");
  assert.deepEqual([request.method, path], [want.method, want.path]);
  if (want.query) assert.deepEqual(Object.fromEntries(new URLSearchParams(query)), want.query);
  for (const [name, value] of Object.entries(want.headers ?? {})) {
    let got = request.headers[name.toLowerCase()] as string | undefined;
    if (name === "Prefer") got = got?.replace(/^amounts=string(, )?/, "") || undefined; // which this client always sends
    if (value === "*") assert.ok(got, name);
    else assert.equal(got, value ?? undefined, name);
  }
  for (const text of want.contains ?? []) assert.ok(body.includes(text), `no ${text} in ${body}`);
  if (want.body === undefined) return;
  const got = JSON.parse(body) as Members;
  assert.deepEqual(Object.keys(got).sort(), Object.keys(want.body as Members).sort());
  compare("sent", want.body, got);
}
