// What a change would have done: the report of a backtest or of a draft, and the checks that would be decided otherwise.
import { html } from "../lib/html.js";
import { link } from "../lib/route.js";
import { plural } from "../lib/words.js";
import { Table } from "../lib/table.js";
import { Agent, Amount, Badge, Counterparty, Empty, Facts, PlainTime, Theirs, Time } from "../lib/parts.js";

export const ended = (status) => status !== "queued" && status !== "running";

// Running shows how far a backtest is.
export const Running = ({ of }) => html`
  <p class="state" role="status"><${Badge} of=${of.status} />${!ended(of.status) && html`<span>${Math.floor(Number(of.progress.fraction) * 100)} %, ${of.progress.checks} checks</span>`}</p>
  ${!ended(of.status) && html`<progress max="1" value=${Number(of.progress.fraction)} aria-label="Progress"></progress>`}
  ${of.error && html`<p class="message">${of.error}</p>`}`;

const decisions = ["allow", "escalate", "block"];

// Report shows coverage, decisions beside each other, rules, and the peaks of budgets.
export function Report({ report }) {
  const { coverage, flips } = report;
  return html`
    <p class="lead">${coverage.compared === 0 ? "Nothing was compared." : flips.total === 0 ? `None of ${plural(coverage.compared, "check")} that were compared would be decided otherwise.` : html`${plural(flips.total, "check")} would be decided otherwise: ${flips.stricter} stricter, ${flips.looser} looser${flips.to_allow > 0 && `, ${flips.to_allow} of them allowed`}.`}</p>
    <section><h2>What was compared</h2><${Facts} of=${[
      ["From", html`<${Time} at=${coverage.from} />`], ["To", html`<${Time} at=${coverage.to} />`],
      ["Checks", `${coverage.compared} of ${coverage.checks}`],
      ["Skipped", coverage.skipped.map((s) => `${s.checks} ${s.reason}`).join(", ")],
      ["Days not at hand", coverage.missing_days.join(", ")],
      ["Budgets counted from", coverage.warm_up && html`<${Time} at=${coverage.warm_up.from} />, by ${plural(coverage.warm_up.checks, "check")}`],
    ]} /></section>
    <section><h2>Decisions</h2><div class="wide-table" tabindex="0" role="region" aria-label="Decisions"><table class="matrix">
      <caption class="hint">Rows: as recorded. Columns: as they would be.</caption>
      <thead><tr><th scope="col"><span class="sr">Recorded</span></th>${decisions.map((d) => html`<th scope="col"><${Badge} of=${d} /></th>`)}</tr></thead>
      <tbody>${decisions.map((from) => html`<tr><th scope="row"><${Badge} of=${from} /></th>${decisions.map((to) => html`<${Cell} of=${report.matrix[from][to]} flip=${from !== to} />`)}</tr>`)}</tbody>
    </table></div></section>
    ${report.rules.length > 0 && html`<section><h2>Rules</h2><div class="wide-table" tabindex="0" role="region" aria-label="Rules"><table>
      <caption class="hint">As recorded, and as it would be.</caption><thead><tr><th scope="col">Rule</th><th scope="col">blocks</th><th scope="col">escalates</th></tr></thead>
      <tbody>${report.rules.map((r) => html`<tr><th scope="row"><code>${r.rule_id}</code></th><td><${Change} from=${r.recorded.block} to=${r.candidate.block} /></td><td><${Change} from=${r.recorded.escalate} to=${r.candidate.escalate} /></td></tr>`)}</tbody>
    </table></div></section>`}
    ${report.budgets.length > 0 && html`<section><h2>Budgets at their fullest</h2><ul class="rows">${report.budgets.map((b) => html`<${Peak} key=${b.rule_id + b.currency} b=${b} />`)}</ul></section>`}`;
}

const Change = ({ from, to }) => html`${from} → ${from === to ? to : html`<strong>${to}</strong>`}`;

function Cell({ of, flip }) {
  const amounts = Object.entries(of.amounts);
  return html`<td class=${flip && of.checks > 0 ? "flip" : ""}>${of.checks}${amounts.map(([currency, amount]) => html`<br /><${Amount} value=${amount} currency=${currency} />`)}</td>`;
}

function Peak({ b }) {
  const of = (peak, most) => (peak && most !== null && Number(most) > 0 ? Number(peak.value) / Number(most) : 0);
  const full = Math.max(of(b.used, b.limit), of(b.count, b.max_count));
  const whose = (peak) => Object.entries(peak.per).map(([, value]) => html` by <${Theirs} text=${value} />`);
  return html`<li><div class="row counter"><span class="what"><code>${b.rule_id}</code></span>
    <span class="to"><span class="bar" aria-hidden="true"><span class=${full >= 1 ? "full" : full >= 0.8 ? "near" : ""} style=${{ width: `${Math.min(100, full * 100)}%` }}></span></span></span>
    <span class="by">${b.limit !== null && b.used && html`<${Amount} value=${b.used.value} currency=${b.currency} /> of <${Amount} value=${b.limit} currency=${b.currency} />${whose(b.used)}`}
      ${b.max_count !== null && b.count && html`${b.limit !== null && " · "}${b.count.value} of ${plural(b.max_count, "action")}${whose(b.count)}`}</span></div></li>`;
}

const side = (d) => html`<${Badge} of=${d.decision} />${d.rule_id && html` <code>${d.rule_id}</code>`}`;

const columns = [
  ["Amount", (f) => (f.action ? html`<${Amount} value=${f.action.amount} currency=${f.action.currency} />` : "A check"), "what number", "8.5rem"],
  ["Recorded, and with the change", (f) => html`${side(f.recorded)} → ${side(f.candidate)}`, "aside", "minmax(0, 2fr)"],
  ["Type", (f) => f.action?.action_type, "line", "4.2rem"], ["Counterparty", (f) => f.action && html`<${Counterparty} name=${f.action.counterparty} />`, "line"],
  ["Agent", (f) => f.action && html`<${Agent} id=${f.action.agent_id} />`], ["Time", (f) => html`<${PlainTime} at=${f.timestamp} />`, "", "10.5rem"],
];

// Flipped are the checks that would be decided otherwise.
export const Flipped = ({ list }) => html`<${Table} list=${list} columns=${columns} to=${(f) => link("checks", f.check_id)} label="Checks that would be decided otherwise"
  empty=${html`<${Empty} title="None.">Every check that was compared would be decided as it was.<//>`} />`;
