import { Spendgate } from "spendgate";

// Asks the provider whether it has a refund under the key.
const refunded = async (key: string): Promise<boolean> => {
  throw new Error(`not known whether there is a refund under ${key}`);
};

// Has the provider refund, once for a key.
const refund = async (key: string): Promise<void> => console.log("refund under", key);

const client = new Spendgate({ baseUrl: process.env.SPENDGATE_API_URL!, apiKey: process.env.SPENDGATE_API_KEY! });
const result = await client.check({
  agent_id: "support-bot", policy_id: "support-refunds", action_type: "refund",
  amount: "19.90", currency: "USD", counterparty: "customer-10", idempotency_key: "order-2004-refund",
});
if (!result.allowed) throw new Error(`not carried out: ${result.next_step}`); // also what was executed, failed or voided
console.log("allowed:", result.message);
if (!result.replayed || !(await refunded(result.check_id))) await refund(result.check_id);
