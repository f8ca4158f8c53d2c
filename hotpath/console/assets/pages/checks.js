// Checks: all that was asked, or what was blocked or escalated, by filters that are part of the address.
import { html } from "../lib/html.js";
import { go, link } from "../lib/route.js";
import { usePages } from "../lib/load.js";
import { Filters, Table, Tabs } from "../lib/table.js";
import { Agent, Amount, Badge, Counterparty, Empty, Head, PlainTime, Policy, Rule } from "../lib/parts.js";
import { Check } from "./check.js";

export const reasons = ["max_amount_exceeded", "currency_not_covered", "refund_age_limit_exceeded", "blocked_category", "vendor_not_on_allowlist",
  "blocked_payment_rail", "discount_cap_exceeded", "blocked_geography", "time_restriction_violated", "duplicate_action_detected",
  "escalation_threshold_exceeded", "required_context_missing", "budget_exceeded", "count_limit_exceeded", "condition_met", "frozen"];

const shared = [["agent_id", "Agent"], ["policy_id", "Policy"], ["from", "From", "day"], ["to", "To", "day"]];
const type = ["action_type", "Type", ["refund", "credit", "discount", "spend"]];
const ofChecks = [
  ["decision", "Decision", ["allow", "block", "escalate"]],
  ["outcome", "Outcome", ["none", "executed", "failed", "voided", "in_doubt"]],
  type, ["reason_code", "Reason", reasons], ["counterparty", "Counterparty"],
  ["idempotency_key", "Idempotency key"], ["payment_key", "Payment key"], ["approval_id", "Approval"], ...shared,
];
const ofViolations = [["decision", "Decision", ["block", "escalate"]], type, ...shared];

const columns = [
  ["Amount", (c) => html`<${Amount} value=${c.action.amount} currency=${c.action.currency} />`, "what number", "8.5rem"],
  ["Decision", (c) => html`<${Badge} of=${c.decision} />${c.outcome && html` <${Badge} of=${c.outcome.status} />`}`, "aside", "8rem"],
  ["Type", (c) => c.action.action_type, "line", "4.2rem"],
  ["Counterparty", (c) => html`<i>to </i><${Counterparty} name=${c.action.counterparty} />`, "line", "minmax(0, 1.2fr)"],
  ["Agent", (c) => html`<${Agent} id=${c.action.agent_id} />`, "", "minmax(0, 1.2fr)"],
  ["Policy", (c) => html`<${Policy} id=${c.action.policy_id} />`],
  ["Rule", (c) => html`<${Rule} policy=${c.action.policy_id} id=${c.violated_rule_id} />`],
  ["Time", (c) => html`<${PlainTime} at=${c.timestamp} />`, "", "10.5rem"],
];

// CheckTable shows checks; violations have the action's members beside the others.
export const CheckTable = (props) => html`<${Table} columns=${columns} to=${(c) => link("checks", c.check_id)} ...${props} />`;
export const checkOf = (v) => ({ ...v, action: v, outcome: null });

export function Checks({ route }) {
  if (route.part) return html`<${Check} key=${route.part} id=${route.part} />`;
  return html`<${List} route=${route} />`;
}

function List({ route }) {
  const { show, ...query } = route.query;
  const blocked = show === "violations";
  const filters = blocked ? ofViolations : ofChecks;
  const list = usePages(blocked ? "/v1/violations" : "/v1/checks", { limit: 100, ...query }, { each: blocked ? checkOf : undefined });
  const tab = (of) => link("checks", "", { show: of, ...Object.fromEntries([...shared, type].map(([name]) => [name, query[name]])) });
  return html`
    <${Head} title="Checks"><button onClick=${list.reload}>Refresh</button><//>
    <${Tabs} label="Which checks" of=${[["All", tab(), !blocked], ["Blocked or escalated", tab("violations"), blocked]]} />
    <${Filters} of=${filters} values=${query} keep=${{ show }} list=${list} change=${(values) => go(link("checks", "", values))} />
    <${CheckTable} list=${list} label="Checks, the newest first" empty=${html`<${Empty} title="No checks.">${Object.keys(route.query).length
      ? "None is as the filters say." : html`An agent asks with <code>POST /v1/checks</code>. What it asks appears here.`}<//>`} />`;
}
