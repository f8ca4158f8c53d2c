import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Spendgate, type KeyRequest } from "spendgate";

// A real node, which the tests in Go start.

export const baseUrl = process.env["SPENDGATE_API_URL"] ?? "";
const adminKey = process.env["SPENDGATE_ADMIN_KEY"] ?? "";

/** Without a node the tests that need one are skipped. */
export const skip = baseUrl === "" && "SPENDGATE_API_URL and SPENDGATE_ADMIN_KEY name no node";

export const admin = () => new Spendgate({ baseUrl, adminKey });

/** keyOf returns a new API key. */
export async function keyOf(grants: Omit<KeyRequest, "name">): Promise<string> {
  return (await admin().admin.createKey({ name: "test", rate_limit_rpm: 10_000, ...grants })).api_key;
}

/** as returns a client with a new API key. */
export async function as(grants: Omit<KeyRequest, "name">): Promise<Spendgate> {
  return new Spendgate({ baseUrl, adminKey, apiKey: await keyOf(grants) });
}

/** refunds makes a policy that asks people above 200 and blocks above 500, and returns its id. */
export async function refunds(author: Spendgate): Promise<string> {
  const { policy_id } = await author.createPolicy({
    name: "refunds",
    rules: [
      {
        rule_id: "cap",
        rule_type: "max_amount",
        description: "No refund above 500 USD",
        parameters: { limit: 500, currency: "USD" },
      },
      { rule_id: "review", rule_type: "escalate_if", parameters: { amount_above: 200, approval: {} } },
    ],
  });
  return policy_id;
}

export const unique = () => randomUUID();

export const temporary = () => mkdtempSync(join(tmpdir(), "spendgate-"));
