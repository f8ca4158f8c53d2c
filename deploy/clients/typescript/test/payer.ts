// A process that tests kill. Its provider's ledger is a folder: each payment is a file that names the payment.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Gate, type Plan, Spendgate, SpendgateError } from "spendgate";

export interface Task {
  baseUrl: string;
  apiKey: string;
  policyId: string;
  ledger: string;
  payments: string[];
  /** Where the process kills itself: "before body", "after POST /v1/checks". */
  kill?: string;
}

/** Payments with these names are made by a provider that takes execution_id as its idempotency key. */
export const isIdempotent = (payment: string) => payment.startsWith("key-");

/** paying returns a guarded function. around runs what is before and after each step. */
export function paying({ baseUrl, apiKey, policyId, ledger }: Omit<Task, "payments">, around = <R>(_: string, run: () => Promise<R>) => run()) {
  const client = new Spendgate({
    baseUrl,
    apiKey,
    attemptTimeout: 2_000,
    fetch: (url, init) =>
      around(`${init?.method} ${new URL(String(url)).pathname.replace(/chk_\w+/, "{id}")}`, () => fetch(url as URL, init)),
  });
  const gate = new Gate({
    client,
    defaults: { agent_id: "bot", policy_id: policyId, action_type: "refund", currency: "USD" },
    onUnreported: () => undefined,
  });
  const plan: Plan<string> = {
    payment_key: (payment) => payment,
    amount: (payment) => (payment.includes("large") ? 501 : 19.9),
    counterparty: (payment) => payment,
  };
  const guarded = [false, true].map((takeOver) =>
    gate.guard(
      plan,
      async (payment, { execution_id }) => {
        await around("body", async () => {
          const name = takeOver ? execution_id : `${execution_id}-${crypto.randomUUID()}`;
          try {
            writeFileSync(join(ledger, name), payment, { flag: "wx", flush: true } as object);
          } catch {
            if (readFileSync(join(ledger, name), "utf8") !== payment) throw new Error("the provider knows this key from another payment");
          }
        });
        return `psp-${execution_id}`;
      },
      { takeOver },
    ),
  );
  return { gate, pay: (payment: string) => guarded[Number(isIdempotent(payment))]!(payment) };
}

if (process.argv[2]?.startsWith("{")) {
  const task = JSON.parse(process.argv[2]) as Task;
  const at = (point: string) => point === task.kill && process.kill(process.pid, "SIGKILL");
  const { gate, pay } = paying(task, async (step, run) => {
    at(`before ${step}`);
    const value = await run();
    at(`after ${step}`);
    return value;
  });
  for (const payment of task.payments) {
    try {
      console.log(`${payment} ${await pay(payment)}`);
    } catch (problem) {
      if (!(problem instanceof SpendgateError)) throw problem;
      console.log(`${payment} ${problem.name}`);
    }
  }
  await gate.reported();
}
