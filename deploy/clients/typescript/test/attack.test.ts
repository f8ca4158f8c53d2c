// Payments through a proxy that spoils everything, by processes that are killed at every step, with a node that is, too.
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, createServer, request as send } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { InDoubt, Spendgate } from "spendgate";

import { as, baseUrl, keyOf, refunds, skip, unique } from "./node.js";
import { type Task, isIdempotent, paying } from "./payer.js";

const payer = fileURLToPath(new URL("payer.js", import.meta.url));
const temporary = () => mkdtempSync(join(tmpdir(), "spendgate-"));

/** paid returns the payments of a provider's ledger, sorted. */
const paid = (ledger: string) => readdirSync(ledger).map((name) => readFileSync(join(ledger, name), "utf8")).sort();

function start(task: Task): { child: ChildProcess; ended: Promise<boolean> } {
  let child!: ChildProcess;
  const ended = new Promise<boolean>((resolve, reject) => {
    child = execFile(process.execPath, [payer, JSON.stringify(task)], (problem, out, err) => {
      const isKilled = child.signalCode === "SIGKILL";
      if (problem && !isKilled) reject(new Error(`${problem.message}\n${out}${err}`));
      else resolve(isKilled);
    });
  });
  return { child, ended };
}

describe("kill -9 of who pays", { skip, concurrency: 3 }, () => {
  let common: Omit<Task, "payments" | "ledger">;
  let auditor: Spendgate;
  const principal = unique();
  before(async () => {
    auditor = await as({ role: "auditor" });
    const apiKey = await keyOf({ role: "gateway", principal });
    common = { baseUrl, apiKey, policyId: await refunds(await as({ role: "author" })) };
  });

  // What is paid when the process is killed there, and whether that is in doubt for a provider without idempotency keys.
  const points: [point: string, payments: number, isInDoubt: boolean][] = [
    ["before POST /v1/checks", 0, false],
    ["after POST /v1/checks", 0, true],
    ["before body", 0, true],
    ["after body", 1, true],
    ["before POST /v1/checks/{id}/outcome", 1, true],
    ["after POST /v1/checks/{id}/outcome", 1, false],
  ];
  for (const [kill, payments, isInDoubt] of points) {
    for (const kind of ["plain-", "key-"]) {
      it(`${kill}, of a ${kind}payment`, async () => {
        const ledger = temporary();
        const payment = kind + unique();
        assert.equal(await start({ ...common, ledger, payments: [payment], kill }).ended, true);
        assert.equal(paid(ledger).length, payments);
        const [state, other] = [0, 1].map(() => paying({ ...common, ledger }).pay(payment)); // two more at once
        const ends = await Promise.allSettled([state, other]);
        const isStuck = isInDoubt && !isIdempotent(payment);
        assert.equal(paid(ledger).length, isStuck ? payments : 1);
        const [check] = await auditor.checks({ payment_key: payment, principal }).all();
        assert.equal(check?.payment?.state, isStuck ? "redeemed" : "executed");
        for (const end of ends) if (end.status === "rejected") assert.ok(end.reason instanceof InDoubt, String(end.reason));
        if (!isStuck) assert.equal(await paying({ ...common, ledger }).pay(payment), `psp-${check?.payment?.execution_id}`);
      });
    }
  }
});

/** Spoiling is a proxy that loses, delays, doubles and cuts, and passes on no header that it need not. */
class Spoiling {
  readonly #target: URL;
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  isCalm = false;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const part of request.setEncoding("utf8")) body += part as string;
    const may = (chance: number) => !this.isCalm && Math.random() < chance;
    if (may(0.08)) return void request.socket.destroy(); // the request is lost
    if (may(0.1)) await new Promise((wait) => setTimeout(wait, 300 * Math.random()));
    if (may(0.1)) setTimeout(() => void this.#forward(request, body).catch(() => undefined), 1_000 * Math.random()); // it comes late again
    try {
      if (may(0.1)) await this.#forward(request, body);
      const { status, headers, text } = await this.#forward(request, body);
      if (may(0.1)) return void request.socket.destroy(); // the answer is lost
      const kept = Object.entries(headers).filter(([name]) => name === "content-length" || !may(0.5));
      response.writeHead(status, Object.fromEntries(kept));
      if (!may(0.08)) return void response.end(text);
      response.write(text.slice(0, Math.floor(text.length * Math.random())), () => request.socket.destroySoon());
    } catch {
      request.socket.destroy();
    }
  }

  #forward({ method, url, headers }: IncomingMessage, body: string) {
    return new Promise<{ status: number; headers: OutgoingHttpHeaders; text: string }>((resolve, reject) => {
      const { hostname, port } = this.#target;
      const sent = send({ hostname, port, method, path: url, headers, agent: false }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => (text += part));
        answer.on("error", reject);
        answer.on("end", () => resolve({ status: answer.statusCode ?? 502, headers: answer.headers, text }));
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }
}

const binary = process.env["SPENDGATE_BINARY"];

it("payments by two processes, all of which and the node are killed", { skip: !binary && "SPENDGATE_BINARY names no program" }, async () => {
  const directory = temporary();
  const ports = await Promise.all([0, 1].map(freePort));
  const environ = {
    SPENDGATE_LISTEN_ADDR: `127.0.0.1:${ports[0]}`,
    SPENDGATE_OPS_ADDR: `127.0.0.1:${ports[1]}`,
    SPENDGATE_DATA_DIR: directory,
  };
  const startNode = () => spawn(binary ?? "", ["dev"], { env: environ, stdio: "ignore" });
  const own = `http://127.0.0.1:${ports[0]}`;
  const proxy = new Spoiling(own);
  let node = startNode();
  let killer: NodeJS.Timeout | undefined;
  try {
    await new Spendgate({ baseUrl: own, attempts: 100, maxWait: 1_000 }).health();
    const admin = new Spendgate({ baseUrl: own, adminKey: readFileSync(join(directory, "admin.key"), "utf8").trim(), attempts: 20 });
    const principal = "payer";
    const key = async (role: string) => (await admin.admin.createKey({ name: role, role, principal, rate_limit_rpm: 10_000 })).api_key;
    const ledger = join(directory, "ledger");
    mkdirSync(ledger);
    const names = ["plain-", "key-", "plain-", "key-", "plain-", "key-", "plain-large-", "key-large-"];
    const payments = Array.from({ length: 64 }, (_, i) => names[i % names.length] + unique());
    const policyId = await refunds(new Spendgate({ baseUrl: own, apiKey: await key("author"), attempts: 20 }));
    const task = { baseUrl: await proxy.start(), apiKey: await key("gateway"), policyId, ledger, payments };

    killer = setInterval(() => {
      node.once("exit", () => (node = startNode()));
      node.kill("SIGKILL");
    }, 1_500);
    let kills = 0;
    const lives = async (from: number) => {
      for (let life = 0; life < 4; life++) {
        const rotated = [...payments.slice(from), ...payments.slice(0, from)];
        const { child, ended } = start({ ...task, payments: rotated });
        const timer = setTimeout(() => child.kill("SIGKILL"), 1_000 + 1_000 * Math.random());
        kills += Number(await ended);
        clearTimeout(timer);
      }
    };
    await Promise.all([lives(0), lives(payments.length / 2)]);
    clearInterval(killer);
    await Promise.all([0, 1].map(() => start(task).ended)); // nobody is killed any more, and the proxy goes on

    proxy.isCalm = true;
    const auditor = new Spendgate({ baseUrl: own, apiKey: await key("auditor"), attempts: 20 });
    const made = paid(ledger);
    assert.equal(new Set(made).size, made.length, "a payment was made twice");
    let stuck = 0;
    for (const payment of payments) {
      const [check] = await auditor.checks({ payment_key: payment, principal }).all();
      const { state, execution_id } = check?.payment ?? {};
      if (payment.includes("large")) assert.equal(`${state} ${made.includes(payment)}`, "free false");
      else if (isIdempotent(payment) || state === "executed") {
        assert.equal(`${state} ${made.includes(payment)}`, "executed true");
        assert.ok(readdirSync(ledger).some((name) => name.startsWith(String(execution_id))));
      } else stuck++; // killed between its redemption and its report
    }
    assert.ok(stuck <= kills, `${stuck} payments are in doubt after ${kills} kills`);
  } finally {
    clearInterval(killer);
    proxy.stop();
    node.removeAllListeners("exit");
    node.kill("SIGKILL");
  }
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
