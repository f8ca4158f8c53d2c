// Backtests: a policy over what was recorded, and the report of one or of a draft: what a change would have done.
import { html, useState } from "../lib/html.js";
import { get, post, segment, useLoad, usePages } from "../lib/api.js";
import { print } from "../lib/json.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { grouped, plural, spoken } from "../lib/words.js";
import { Agent, Amount, Awaited, Badge, Bar, Counterparty, Empty, Facts, Failure, Form, Head, Policy, Rule, Table, Time, timeColumn, useAct, Who, Whose, WideTable } from "../lib/parts.js";

export const ended = (status) => status !== "queued" && status !== "running";
const decisions = ["allow", "escalate", "block"];
const states = { counterfactual: "as these rules would have filled them", recorded: "as they were recorded" };

export function Backtests({ route }) {
  if (route.part) return html`<${Backtest} key=${route.part} id=${route.part} route=${route} />`;
  const list = usePages("/v1/backtests", { limit: 50 });
  return html`
    <${Head} title="Backtests"><button onClick=${list.reload}>Refresh</button><//>
    <p class="hint">What other rules would have decided about the checks of a time. Begin one from a policy's editor, or with <code>spendgate policies backtest</code>.</p>
    <${Table} list=${list} label="Backtests, the newest first" to=${(b) => link("backtests", b.backtest_id)} columns=${[
      ["Policy", (b) => b.policy_id, "what"], ["State", (b) => html`<${Badge} of=${b.status} />`, "aside", "7rem"], ["Rules", (b) => (b.version ? `version ${b.version}` : "changed rules"), "", "8rem"],
      timeColumn("From", "from"), timeColumn("To", "to", "to"), ["By", (b) => html`<${Who} name=${b.principal} />`]]}
      empty=${html`<${Empty} title="No backtests."><a href=${link("policies")}>Open a policy</a>, change its text in the editor, and see there what it would have done.<//>`} />`;
}

// Backtest shows one, on a page of its own or within another.
export function Backtest({ id, route, within = false }) {
  const [done, setDone] = useState(false);
  const path = `/v1/backtests/${segment(id)}`;
  const read = useLoad(async (signal) => {
    const now = await get(path, { signal });
    setDone(ended(now.status));
    return now;
  }, [id], done ? 0 : 1000);
  const { act, failure } = useAct();
  const b = read.data;
  if (!b) return html`<${Awaited} title=${!within && "Backtest"} of=${read} />`;
  return html`
    ${within ? html`<h2 class="part">The backtest</h2>` : html`<${Head} title=${`Backtest of ${b.policy_id}`} back=${[link("backtests"), "All backtests"]} />`}
    ${!ended(b.status) && html`<button onClick=${() => act(() => post(`${path}/cancel`).then(read.reload))}>Cancel</button>`}
    <${Running} of=${b} />
    <${Failure} error=${failure ?? read.error} />
    ${b.report && html`<${Report} report=${b.report} policy=${b.policy_id} route=${route} /><${Flips} key=${route.query.change} path=${path} total=${b.report.flips} change=${route.query.change} />`}
    <${Facts} of=${[
      ["Policy", html`<${Policy} id=${b.policy_id} />`], ["Rules", b.version ? html`<${Policy} id=${b.policy_id} version=${b.version} shown />` : "changed, as below"],
      ["Budgets and duplicates", states[b.state] ?? b.state], ["By", html`<${Who} name=${b.principal} />`], ["Begun", html`<${Time} at=${b.created_at} dated />`],
    ]} />
    <details class="exactly"><summary>The rules</summary><pre class="json">${print(b.rules)}</pre></details>`;
}

function Flips({ path, total, change }) {
  const list = usePages(`${path}/flips`, { limit: 100 }, { only: changedAs(change) });
  return html`<section><h2>Decisions that would change</h2>${total.listed < total.total && html`<p class="hint">The first ${grouped(total.listed)} of ${grouped(total.total)}.</p>`}<${Flipped} list=${{ ...list, partial: total.listed < total.total }} change=${change} /></section>`;
}

// changedAs selects what a cell of the matrix counts, by its name.
export const changedAs = (change) => (f) => !change || change === `${f.recorded.decision}-${f.candidate.decision}`;

// Begin asks for how long, and begins a backtest of rules.
export function Begin({ id, rules, begun }) {
  if (!may("backtests:write")) return null;
  const begin = async ({ days }) => begun((await post("/v1/backtests", print({ policy_id: id, rules: rules(), from: new Date(Date.now() - days * 86400e3).toISOString(), to: new Date().toISOString() }))).backtest_id);
  return html`
    <section><h2>What it would have done</h2><p class="hint">These rules, over the checks that were recorded. Nothing is decided by it.</p>
      <${Form} button="Begin a backtest" plain send=${begin} fields=${[["days", "Over the last", { of: [["1", "1 day"], ["7", "7 days"], ["30", "30 days"]], value: "7" }]]} /></section>`;
}

// Running shows how far a backtest is.
export const Running = ({ of }) => html`
  <p class="state" role="status"><${Badge} of=${of.status} />${!ended(of.status) && html`<span>${Math.floor(Number(of.progress.fraction) * 100)} %, ${plural(of.progress.checks, "check")}</span>`}</p>
  ${!ended(of.status) && html`<progress max="1" value=${Number(of.progress.fraction)} aria-label="Progress"></progress>`}
  ${of.error && html`<p class="message">${of.error}</p>`}`;

// Report shows coverage, decisions beside each other, rules, and the peaks of budgets. Cells that stay lead to the checks, others
// to those of the list below that they count.
export function Report({ report, policy, route }) {
  const { coverage, flips, matrix } = report;
  const range = { policy_id: policy, from: coverage.from, to: coverage.to };
  const cell = (from, to) => (from === to ? link("checks", "", { ...range, decision: from }) : link(route.page, [route.part, ...route.rest], { ...route.query, change: `${from}-${to}` }));
  return html`
    <p class="lead">${coverage.compared === 0 ? "Nothing was compared." : flips.total === 0 ? `None of ${plural(coverage.compared, "decision")} that were compared would change.` : html`${plural(flips.total, "decision")} would change: ${grouped(flips.stricter)} stricter, ${grouped(flips.looser)} looser${flips.to_allow > 0 && `, ${grouped(flips.to_allow)} of them allowed`}.`}</p>
    <section><h2>What was compared</h2><${Facts} of=${[
      ["From", html`<${Time} at=${coverage.from} dated />`], ["To", html`<${Time} at=${coverage.to} dated />`],
      ["Checks", html`${grouped(coverage.compared)} of <a href=${link("checks", "", range)}>${grouped(coverage.checks)}</a>`],
      ["Left out", coverage.skipped.map((s) => `${grouped(s.checks)} ${spoken(s.reason)}`).join(", ")],
      ["Days without records", coverage.missing_days.join(", ")],
      ["Budgets counted since", coverage.warm_up && html`<${Time} at=${coverage.warm_up.from} dated />, with ${plural(coverage.warm_up.checks, "check")}`],
    ]} /></section>
    <section><h2>Decisions</h2><${WideTable} label="Decisions" class="matrix" caption="Rows: as recorded. Columns: with the change." head=${["Recorded", ...decisions.map((d) => html`<${Badge} of=${d} />`)]}
      rows=${decisions.map((from) => [html`<${Badge} of=${from} />`, ...decisions.map((to) => [html`<${Cell} of=${matrix[from][to]} to=${cell(from, to)} />`, from !== to && matrix[from][to].checks > 0 && "flip"])])} /></section>
    ${report.rules.length > 0 && html`<section><h2>Rules</h2><${WideTable} label="Rules" caption="As recorded, and with the change." head=${["Rule", "blocks", "escalates"]}
      rows=${report.rules.map((r) => [html`<${Rule} policy=${policy} id=${r.rule_id} />`, ...["block", "escalate"].map((d) => [html`<${Change} from=${r.recorded[d]} to=${r.candidate[d]} />`])])} /></section>`}
    ${report.budgets.length > 0 && html`<section><h2>Budgets at their fullest</h2><ul class="rows">${report.budgets.map((b) => html`<${Peak} key=${b.rule_id + b.currency} b=${b} policy=${policy} />`)}</ul></section>`}`;
}

const Change = ({ from, to }) => html`${grouped(from)} → ${from === to ? grouped(to) : html`<strong>${grouped(to)}</strong>`}`;
const Cell = ({ of, to }) => html`${of.checks > 0 ? html`<a href=${to}>${grouped(of.checks)}</a>` : "0"}${Object.entries(of.amounts).map(([currency, amount]) => html`<br /><${Amount} value=${amount} currency=${currency} />`)}`;

function Peak({ b, policy }) {
  const of = (peak, most) => (peak && most !== null && Number(most) > 0 ? Number(peak.value) / Number(most) : 0);
  const money = (value) => html`<${Amount} value=${value} currency=${b.currency} />`;
  return html`<li><div class="row counter"><span class="what"><${Rule} policy=${policy} id=${b.rule_id} /></span>
    <span class="to"><${Bar} full=${Math.max(of(b.used, b.limit), of(b.count, b.max_count))} /></span>
    <span class="by">${b.limit !== null && b.used && html`${money(b.used.value)} of ${money(b.limit)} <${Whose} per=${b.used.per} />`}
      ${b.max_count !== null && b.count && html`${b.limit !== null && " · "}${grouped(b.count.value)} of ${plural(b.max_count, "action")} <${Whose} per=${b.count.per} />`}</span></div></li>`;
}

const side = (d, f) => html`<${Badge} of=${d.decision} /> <${Rule} policy=${f.action?.policy_id} id=${d.rule_id} />`;

const columns = [
  ["Amount", (f) => (f.action ? html`<${Amount} value=${f.action.amount} currency=${f.action.currency} />` : "A check"), "what number", "9.5rem"],
  ["Recorded, and with the change", (f) => html`${side(f.recorded, f)} → ${side(f.candidate, f)}`, "aside", "minmax(0, 2fr)"],
  ["Type", (f) => f.action?.action_type, "line", "4.2rem"], ["Counterparty", (f) => f.action && html`<${Counterparty} name=${f.action.counterparty} />`, "line"],
  ["Agent", (f) => f.action && html`<${Agent} id=${f.action.agent_id} />`], timeColumn("Time", "timestamp"),
];

// Flipped are the checks whose decision would change.
export const Flipped = ({ list, change }) => html`${change && html`<p class="hint">Only from ${change.replace("-", " to ")}.</p>`}<${Table} list=${list} columns=${columns} to=${(f) => link("checks", f.check_id)} label="Checks whose decision would change"
  empty=${html`<${Empty} title="None.">Every check that was compared would be decided as it was.<//>`} />`;
