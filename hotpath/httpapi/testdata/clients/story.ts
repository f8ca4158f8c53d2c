// What a program does with the types of a generated client, whichever made them.
import { check, events, post, type Action, type CheckResult, type Rule } from "./client";

const rules: Rule[] = [
  { rule_id: "cap", rule_type: "max_amount", parameters: { limit: 500, currency: "EUR" } },
  { rule_id: "goods", rule_type: "blocked_categories", parameters: { categories: ["gambling"], on_missing: "escalate", approval: {} } },
  { rule_id: "day", rule_type: "budget", parameters: { max_count: 9, window: "day", per: ["agent_id"] } },
];
// @ts-expect-error: the parameter is called limit
export const misspelt: Rule = { rule_id: "cap", rule_type: "max_amount", parameters: { limits: 500 } };
// @ts-expect-error: there is no such type
export const unknown: Rule = { rule_id: "cap", rule_type: "min_amount", parameters: {} };
// @ts-expect-error: an action has an amount
export const incomplete: Action = { agent_id: "a", policy_id: "p", action_type: "spend", currency: "EUR", counterparty: "c" };

function told(result: CheckResult): string {
  if (result.reason_code === "max_amount_exceeded") return `${result.decision} ${result.violated_rule_id}`;
  const reason: string | null = result.reason_code; // a later version may have others
  return `${result.decision} ${reason}`;
}

async function main() {
  const policy = await post({ policy_id: "typed", name: "Typed", rules, metadata: { team: "x" } });
  for (const rule of policy.rules) {
    switch (rule.rule_type) {
      case "max_amount": console.log(rule.parameters.limit.toFixed(2)); break;
      case "blocked_categories": console.log(rule.parameters.categories.join()); break;
      case "budget": console.log(rule.parameters.window ?? "rolling");
    }
  }

  const action: Action = {
    agent_id: "a", policy_id: "typed", action_type: "spend", amount: 12.5, currency: "EUR", counterparty: "c",
    metadata: { category: "books", order: { lines: [1, 2] } }, idempotency_key: "k",
  };
  for (const body of [action, { ...action, amount: "12.50" }, { ...action, amount: 600, idempotency_key: null }, { ...action, currency: "euro" }]) {
    const { result, error, replayed } = await check(body);
    console.log(result ? told(result) : error?.error.code, replayed);
  }

  for (const event of await events()) {
    switch (event.type) {
      case "violation.recorded": console.log(event.type, "amount" in event.data ? event.data.amount : null); break;
      case "policy.created": console.log(event.type, event.data.version, event.data.by.kind);
    }
  }
}

void main();
