import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";

import * as spendgate from "spendgate";

import { type Members, compare } from "./scripted.js";

// The cases that the guards in all languages pass (docs/clients/conformance.md).

type Any = any; // of the file, whose format is on that page

const path = process.env["SPENDGATE_GUARD_CASES"] ?? "../guard-cases.json";
const file = JSON.parse(readFileSync(path, "utf8")) as Any;

/** The guard's clock, which stands still but for the guard's pauses and the time that answers take. */
let clock = 1_000_000;
performance.now = () => clock;

class Timed extends spendgate.Spendgate {
  isOver = false;
  override async pause(milliseconds: number): Promise<void> {
    clock += milliseconds;
    if (this.isOver) throw new Error("the case has ended");
    await new Promise(setImmediate); // lets the call end before a report is repeated in the background
  }
}

function changed(body: unknown, change: Members = {}): unknown {
  const members = { ...(body as Members) };
  for (const [name, value] of Object.entries(change)) {
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value) && members[name];
    members[name] = isObject ? changed(members[name], value as Members) : value;
  }
  return members;
}

/** Player is a server that plays the exchanges of a call. */
class Player {
  readonly nonces = new Set<string>();
  readonly problems: unknown[] = [];
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #asked!: Members;
  #left: Any[] = [];
  after: () => unknown = () => undefined;

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  begin(call: Any, asked: Members): void {
    this.#asked = { ...asked };
    this.#left = call.exchanges.flatMap((exchange: Any) => Array(Number(exchange.times) || 1).fill(exchange));
    this.nonces.clear();
  }

  end(): void {
    if (this.problems.length) throw this.problems[0];
    const unused = this.#left.filter(({ times }) => times !== "any");
    assert.deepEqual(unused, [], "exchanges");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk as string;
    const [exchange] = this.#left;
    if (exchange?.times !== "any") this.#left.shift();
    try {
      assert.ok(exchange, `one request more: ${request.method} ${request.url} ${body}`);
      this.#expect(exchange, request, JSON.parse(body) as Members);
    } catch (problem) {
      this.problems.push(problem);
      return void request.socket.destroy();
    }
    this.after();
    clock += 1000 * (exchange.takes ?? 0);
    if (exchange.fail === "hang_up") return void request.socket.destroy();
    if (exchange.fail !== "stall") this.#answer(exchange, request, response);
  }

  #expect(exchange: Any, request: IncomingMessage, body: Members): void {
    const paths: Record<string, string> = { ask: "", report: "/chk_1/outcome", in_doubt: "/chk_1/in-doubt" };
    assert.equal(`${request.method} ${request.url}`, `POST /v1/checks${paths[exchange.request]}`);
    assert.equal(request.headers["x-api-key"], file.api_key);
    if (exchange.request === "ask") {
      const { redeem, payment_key: key, ...action } = body;
      assert.ok(typeof redeem === "string" && redeem.length >= 16 && redeem.length <= 64, "nonce");
      this.nonces.add(redeem);
      const { payment_key: wanted, ...asked } = { ...this.#asked, ...exchange.has };
      assert.equal(String(key).trim().normalize("NFC"), String(wanted).trim().normalize("NFC"));
      same(asked, action);
      const wait = exchange.wait === undefined ? "amounts=string" : `amounts=string, wait=${exchange.wait}`;
      assert.equal(request.headers["prefer"], wait);
    } else {
      const { note, ...sent } = body;
      same(exchange.send ?? {}, sent);
    }
  }

  #answer(exchange: Any, request: IncomingMessage, response: ServerResponse): void {
    const answer = file.answers[exchange.answer ?? ""];
    const body = changed(structuredClone(answer?.body), exchange.change) as Members;
    for (const name of exchange.drop ?? []) {
      const [outer = "", inner] = name.split(".");
      if (inner) delete (body[outer] as Members)[inner];
      else delete body[outer];
    }
    const text = exchange.text ?? JSON.stringify(body);
    const [nonce = "of-another-process"] = this.nonces;
    const whole = Buffer.from(text.replaceAll("$nonce", nonce));
    response.sendDate = false;
    response.writeHead(exchange.status ?? answer?.status ?? 200, [["Content-Length", String(whole.length)], ...(exchange.headers ?? [])].flat() as string[]);
    const { cut } = exchange;
    if (cut === undefined) return void response.end(whole);
    response.flushHeaders();
    response.write(whole.subarray(0, cut < 0 ? whole.length + cut : cut), () => request.socket.destroySoon());
  }
}

/** same throws if a request has not exactly the wanted members. */
function same(want: Members, got: Members): void {
  assert.deepEqual(Object.keys(got).sort(), Object.keys(want).sort(), JSON.stringify(got));
  const { amount } = got;
  compare("sent", want, amount === undefined ? got : { ...got, amount: String(amount) });
}

class Declined extends Error {}

const kinds: [string, new (...args: never[]) => Error][] = [
  ["blocked", spendgate.Blocked],
  ["expired", spendgate.ApprovalExpired],
  ["denied", spendgate.Denied],
  ["escalated", spendgate.Escalated],
  ["pending", spendgate.ApprovalPending],
  ["unanswered", spendgate.Unanswered],
  ["in_doubt", spendgate.InDoubt],
  ["changed", spendgate.ActionChanged],
  ["bad_key", spendgate.BadKey],
  ["differs", spendgate.Differs],
  ["api_error", spendgate.APIError],
  ["declined", Declined],
];

/** raised has an error's members as the file names them. */
function raised(problem: any): Members {
  const kind = kinds.find(([, type]) => problem instanceof type)?.[0];
  assert.ok(kind, String(problem));
  const { checkId: check_id, approvalId: approval_id, inProgress: in_progress, status, code, differs, result } = problem;
  const { reason_code, next_step } = result ?? {};
  return { kind, check_id, approval_id, in_progress, status, code, differs, reason_code, next_step };
}

async function play(gate: spendgate.Gate, player: Player, call: Any): Promise<string> {
  const { failed_if, wait = 0, take_over, take_over_within_hours: hours, ...members } = call.options ?? {};
  const action: Members = { ...file.action, payment_key: file.payment_key, ...members, ...call.with };
  player.begin(call, action);
  player.after = () => Object.assign(action, call.meanwhile);
  let ran: string | null = null;
  const told = call.body ?? {};
  const body = async (_of: Members, { execution_id }: spendgate.Permit) => {
    assert.equal(ran, null, "it ran twice");
    ran = execution_id;
    if (told.raise) throw told.raise === "declined" ? new Declined() : new Error("nobody knows");
    return told.return ?? "psp-1";
  };
  const isReported = "reference" in told || "amount" in told;
  const options: spendgate.CarryOptions<unknown> = {
    wait: 1000 * wait,
    ...(take_over ? { takeOver: true } : {}),
    ...(hours ? { takeOverHours: hours } : {}),
    ...(failed_if === "error" ? { failedOn: (problem: unknown) => problem instanceof Declined } : {}),
    ...(failed_if === "result" ? { failedIf: (value: unknown) => value === "declined" } : {}),
    ...(isReported ? { report: (value: unknown) => ({ reference: (told.reference ?? value) as string, amount: told.amount }) } : {}),
  };
  const plan = Object.fromEntries(Object.keys(action).map((name) => [name, (of: Members) => of[name]]));
  const guarded = gate.guard(plan as unknown as spendgate.Plan<Members>, body, options);
  let ended: { value: unknown } | { problem: unknown };
  try {
    ended = { value: await guarded(action) };
  } catch (problem) {
    ended = { problem };
  }
  if (player.problems.length) throw player.problems[0];
  if (call.raises) assert.ok("problem" in ended, `it returned ${JSON.stringify(ended)}`);
  if ("problem" in ended && !call.raises) throw ended.problem;
  if ("problem" in ended) compare("raised", call.raises, raised(ended.problem));
  else assert.deepEqual(ended.value, call.returns);
  assert.equal(ran, call.ran, "ran");
  await gate.reported();
  player.end();
  assert.ok(player.nonces.size <= 1, "nonces");
  return [...player.nonces].join();
}

describe("the guards' cases", () => {
  for (const { name, calls } of file.cases) {
    it(name, async () => {
      const player = new Player();
      const attemptTimeout = JSON.stringify(calls).includes('"stall"') ? 500 : 10_000;
      const client = new Timed({ baseUrl: await player.start(), apiKey: file.api_key, attemptTimeout });
      const gate = new spendgate.Gate({ client, onUnreported: () => undefined });
      try {
        const nonces: string[] = [];
        for (const call of calls) nonces.push(await play(gate, player, call));
        const used = nonces.filter(Boolean);
        assert.equal(new Set(used).size, used.length, "each call has a nonce of its own");
      } finally {
        client.isOver = true;
        player.stop();
      }
    });
  }
});
