import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { type GuardedAction, Spendgate } from "spendgate";

import type { Members } from "./scripted.js";

// A service that is played by fetch, and its answers.

export const { bodies, action: common } = JSON.parse(readFileSync(process.env["SPENDGATE_CASES"] ?? "../cases.json", "utf8")) as {
  bodies: Record<string, Members>;
  action: Members;
};
export const action = () => ({ ...common, idempotency_key: "order-1" }) as unknown as GuardedAction;

export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body: unknown;
}
export const allow = (checkId = "chk_1", headers = {}): Answer => ({ body: { ...bodies["allow"], check_id: checkId }, headers });
export const outcome: Answer = { status: 201, body: bodies["outcome"] };
export const failed: Answer = { status: 500, body: { error: { code: "internal_error", message: "the store does not answer", request_id: "r" } } };
export const replay = (headers = {}) => allow("chk_1", { "Idempotent-Replayed": "true", "First-Request": "other", ...headers });

/** serving returns a client that gets the answers, and the requests that it sent. */
export function serving(answers: Answer[], meanwhile: () => void = () => undefined): { client: Spendgate; sent: string[] } {
  const sent: string[] = [];
  const client = new Spendgate({
    baseUrl: "http://service",
    apiKey: "key",
    attempts: 1,
    fetch: async (url, init) => {
      const { body, status = 200, headers = {} } = answers[sent.length] ?? assert.fail(`one request more: ${String(url)}`);
      sent.push(`${init?.method} ${new URL(String(url)).pathname} ${String(init?.body ?? "")}`);
      meanwhile();
      return new Response(JSON.stringify(body), { status, headers });
    },
  });
  return { client, sent };
}
