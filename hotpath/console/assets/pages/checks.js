// Checks: all that was asked, by filters that are part of the address.
import { html } from "../lib/html.js";
import { go, link } from "../lib/route.js";
import { usePages } from "../lib/load.js";
import { Amount, Badge, Empty, Filters, Head, Pages, PlainTime, Theirs } from "../lib/parts.js";
import { Check } from "./check.js";

export const reasons = ["max_amount_exceeded", "currency_not_covered", "refund_age_limit_exceeded", "blocked_category", "vendor_not_on_allowlist",
  "blocked_payment_rail", "discount_cap_exceeded", "blocked_geography", "time_restriction_violated", "duplicate_action_detected",
  "escalation_threshold_exceeded", "required_context_missing", "budget_exceeded", "count_limit_exceeded", "condition_met", "frozen"];

const filters = [
  ["decision", "Decision", ["allow", "block", "escalate"]],
  ["outcome", "Outcome", ["none", "executed", "failed", "voided", "in_doubt"]],
  ["action_type", "Type", ["refund", "credit", "discount", "spend"]],
  ["reason_code", "Reason", reasons],
  ["agent_id", "Agent"], ["policy_id", "Policy"], ["counterparty", "Counterparty"], ["idempotency_key", "Idempotency key"], ["payment_key", "Payment key"], ["approval_id", "Approval"],
  ["from", "From", "day"], ["to", "To", "day"],
];

// Tabs are the lists of checks: all of them, and those that were blocked or escalated.
export const Tabs = ({ page, query }) => html`<div class="tabs" role="group" aria-label="Which checks">${[["checks", "All"], ["violations", "Blocked or escalated"]].map(([path, title]) => html`
  <a href=${link(path, "", Object.fromEntries(["agent_id", "policy_id", "from", "to"].map((name) => [name, query[name]])))} aria-current=${path === page ? "true" : undefined}>${title}</a>`)}</div>`;

export function Checks({ route }) {
  if (route.part) return html`<${Check} key=${route.part} id=${route.part} />`;
  return html`<${List} route=${route} />`;
}

function List({ route }) {
  const list = usePages("/v1/checks", { limit: 100, ...route.query });
  return html`
    <${Head} title="Checks"><button onClick=${list.reload}>Refresh</button><//>
    <${Tabs} page="checks" query=${route.query} />
    <${Filters} of=${filters} values=${route.query} change=${(values) => go(link("checks", "", values))} />
    <${Pages} list=${list} row=${row} columns=${columns} label="Checks, the newest first" empty=${html`<${Empty} title="No checks.">${Object.keys(route.query).length
      ? "None is as the filters say." : html`An agent asks with <code>POST /v1/checks</code>. What it asks appears here.`}<//>`} />`;
}

export const columns = ["Amount", "Decision", "Type", "Counterparty", "Agent", "Policy", "Rule", "Time"];

export const row = (c) => html`
  <li key=${c.check_id}><a class="row check" href=${link("checks", c.check_id)}>
    <span class="what"><${Amount} value=${c.action.amount} currency=${c.action.currency} /></span>
    <span class="side-note"><${Badge} of=${c.decision} />${c.outcome && html` <${Badge} of=${c.outcome.status} />`}</span>
    <span class="to"><span>${c.action.action_type}</span><i> to </i><${Theirs} text=${c.action.counterparty} /></span>
    <span class="by"><${Theirs} text=${c.action.agent_id} /><i> · </i><span>${c.action.policy_id}</span>${c.violated_rule_id && html`<i> · </i>`}<span>${c.violated_rule_id}</span><i> · </i><${PlainTime} at=${c.timestamp} /></span>
  </a></li>`;
