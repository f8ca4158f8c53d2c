// Violations: what was blocked or escalated.
import { html } from "../lib/html.js";
import { go, link } from "../lib/route.js";
import { usePages } from "../lib/load.js";
import { Amount, Badge, Empty, Filters, Head, Pages, PlainTime, Theirs } from "../lib/parts.js";

const filters = [
  ["decision", "Decision", ["block", "escalate"]], ["agent_id", "Agent"], ["policy_id", "Policy"],
  ["from", "From", null, "UTC: 2026-07-04, or with a time"], ["to", "To", null, "UTC, inclusive"],
];

export function Violations({ route }) {
  const list = usePages("/v1/violations", { limit: 100, ...route.query });
  return html`
    <${Head} title="Violations"><button onClick=${list.reload}>Read again</button><//>
    <${Filters} of=${filters} values=${route.query} change=${(values) => go(link("violations", "", values))} />
    <${Pages} list=${list} row=${row} label="Violations, the newest first" empty=${html`<${Empty} title="No violations.">${Object.keys(route.query).length
      ? "None is as the filters say." : "Nothing was blocked or escalated so far."}<//>`} />`;
}

const row = (v) => html`
  <li key=${v.violation_id}><a class="row check" href=${link("checks", v.check_id)}>
    <span class="what"><${Amount} value=${v.amount} currency=${v.currency} /></span>
    <span class="side-note"><${Badge} of=${v.decision} /></span>
    <span class="to">${v.action_type} to <${Theirs} text=${v.counterparty} /></span>
    <span class="by"><${Theirs} text=${v.agent_id} /> · ${v.policy_id} · <code>${v.violated_rule_id}</code> ${v.violated_rule_description} · <${PlainTime} at=${v.timestamp} /></span>
  </a></li>`;
