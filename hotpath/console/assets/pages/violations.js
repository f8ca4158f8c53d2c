// Violations: what was blocked or escalated.
import { html } from "../lib/html.js";
import { go, link } from "../lib/route.js";
import { usePages } from "../lib/load.js";
import { columns, Tabs } from "./checks.js";
import { Amount, Badge, Empty, Filters, Head, Pages, PlainTime, Theirs } from "../lib/parts.js";

const filters = [
  ["decision", "Decision", ["block", "escalate"]], ["agent_id", "Agent"], ["policy_id", "Policy"],
  ["from", "From", "day"], ["to", "To", "day"],
];

export function Violations({ route }) {
  const list = usePages("/v1/violations", { limit: 100, ...route.query });
  return html`
    <${Head} title="Violations"><button onClick=${list.reload}>Refresh</button><//>
    <${Tabs} page="violations" query=${route.query} />
    <${Filters} of=${filters} values=${route.query} change=${(values) => go(link("violations", "", values))} />
    <${Pages} list=${list} row=${row} columns=${columns} label="Violations, the newest first" empty=${html`<${Empty} title="No violations.">${Object.keys(route.query).length
      ? "None is as the filters say." : "Nothing was blocked or escalated so far."}<//>`} />`;
}

const row = (v) => html`
  <li key=${v.violation_id}><a class="row check" href=${link("checks", v.check_id)}>
    <span class="what"><${Amount} value=${v.amount} currency=${v.currency} /></span>
    <span class="side-note"><${Badge} of=${v.decision} /></span>
    <span class="to"><span>${v.action_type}</span><i> to </i><${Theirs} text=${v.counterparty} /></span>
    <span class="by"><${Theirs} text=${v.agent_id} /><i> · </i><span>${v.policy_id}</span><i> · </i><span title=${v.violated_rule_description}><code>${v.violated_rule_id}</code></span><i> · </i><${PlainTime} at=${v.timestamp} /></span>
  </a></li>`;
