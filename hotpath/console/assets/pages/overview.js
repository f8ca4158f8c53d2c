// Overview: decisions over time, money, what waits, and the budgets that are fullest.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { sum } from "../lib/decimal.js";
import { listOf, useLoad } from "../lib/load.js";
import { plural, took as inWords } from "../lib/words.js";
import { Chart } from "../lib/chart.js";
import { Filters, Tabs } from "../lib/table.js";
import { Agent, Amount, Counterparty, Empty, Failure, Head, Loading, Rule, Time } from "../lib/parts.js";
import { Freeze } from "./freezes.js";
import { BudgetTable, fullest, share } from "./budgets.js";

const lengths = { "1 hour": ["minute", 3600e3], "1 day": ["hour", 86400e3], "30 days": ["day", 29 * 86400e3] };

export function Overview({ route, waiting }) {
  const { range, ...query } = route.query;
  const { data, error } = useLoad((signal) => get("/v1/checks", { query: { ...query, limit: 100 }, signal }), [query], 30000);
  const { data: doubt } = useLoad((signal) => get("/v1/checks", { query: { ...query, outcome: "in_doubt", limit: 100 }, signal }), [query], 30000);
  const doubtful = doubt?.data.length ?? 0;
  const drafts = (waiting.list ?? []).filter((a) => a.kind === "draft").length;
  return html`
    <${Head} title="Overview"><${Freeze} /><//>
    ${may("approvals:decide") && html`<p class="lead">${waiting.count ? html`<a href=${link("approvals")}>${plural(waiting.count, "decision")} waiting for you</a>${drafts > 0 && `, ${plural(drafts, "draft")} of policies among them`}` : "Nothing waits for you."}</p>`}
    ${may("approvals:read") && html`<${Pending} />`}
    ${doubtful > 0 && html`<p><a href=${link("checks", "", { ...query, outcome: "in_doubt" })}>${doubt.pagination.has_more ? `${doubtful} or more` : doubtful} in doubt</a>: redeemed, and nobody knows whether they were carried out.</p>`}
    <${Filters} of=${[["policy_id", "Policy"], ["agent_id", "Agent"]]} values=${query} keep=${{ range }} list=${data && listOf(data.data)} change=${(values) => go(link("overview", "", values))} />
    <${Decisions} route=${route} page=${["overview"]} query=${query} />
    <${Failure} error=${error} />
    ${data && html`<${Newest} checks=${data.data} />`}
    ${may("budgets:read") && may("policies:read") && html`<${Near} />`}`;
}

// Decisions are the numbers of decisions over time.
export function Decisions({ route, page: [page, part], query }) {
  const range = lengths[route.query.range] ? route.query.range : "1 day";
  const [step, length] = lengths[range];
  const stats = useLoad((signal) => {
    const now = Date.now();
    return get("/v1/stats", { query: { ...query, from: new Date(now - length).toISOString(), to: new Date(now).toISOString(), step }, signal });
  }, [range, query], 30000);
  return html`<section><h2>Decisions</h2>
    <${Tabs} label="How long" of=${Object.keys(lengths).map((name) => [name, link(page, part, { ...route.query, range: name }), name === range])} />
    ${stats.error?.status === 404 ? html`<${Empty} title="This node counts no decisions." />` : html`<${Failure} error=${stats.error} retry=${stats.reload} />`}
    ${stats.data ? html`<${Chart} stats=${stats.data} />` : stats.loading && html`<${Loading} />`}
  </section>`;
}

// Pending says what waits for people, whoever they are.
function Pending() {
  const { data, error } = useLoad((signal) => get("/v1/approvals", { query: { status: "pending", limit: 100 }, signal }), [], 15000);
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return null;
  const [count, more] = [data.data.length, data.pagination.has_more];
  if (count === 0) return html`<p>No approval is pending.</p>`;
  return html`<p><a href=${link("approvals", "", { show: "all", status: "pending" })}>${more ? `${count} or more approvals are` : count === 1 ? "1 approval is" : `${count} approvals are`} pending</a>${!more && html`, the oldest since <${Time} at=${data.data.at(-1).created_at} />`}.</p>`;
}

// Newest says of checks what money they were about, who asked, which rules decided, and how long they took by their own record.
export function Newest({ checks }) {
  if (checks.length === 0) return null;
  const took = checks.map((c) => c.latency_ms).sort((a, b) => a - b);
  const within = (part) => inWords(took[Math.ceil(took.length * part) - 1]);
  return html`<section><h2>The newest ${plural(checks.length, "check")}</h2>
    <p class="hint">Since <${Time} at=${checks.at(-1).timestamp} />.</p>
    <${Money} checks=${checks} />
    <div class="facts tops">
      <${Top} title="Agents" checks=${checks} of=${(c) => c.action.agent_id} show=${(c) => html`<${Agent} id=${c.action.agent_id} />`} />
      <${Top} title="Counterparties" checks=${checks} of=${(c) => c.action.counterparty} show=${(c) => html`<${Counterparty} name=${c.action.counterparty} />`} />
      <${Top} title="Rules that blocked or escalated" checks=${checks} of=${(c) => c.violated_rule_id && `${c.action.policy_id} ${c.violated_rule_id}`} show=${(c) => html`<${Rule} policy=${c.action.policy_id} id=${c.violated_rule_id} /> <span class="hint">${c.action.policy_id}</span>`} />
    </div>
    <p class="hint">Half of them took ${within(0.5)} in the node, 95 % ${within(0.95)}, the slowest ${within(1)}.</p></section>`;
}

// Money has the sums of amounts by currency and decision.
function Money({ checks }) {
  const currencies = [...new Set(checks.map((c) => c.action.currency))].sort();
  const kinds = [["allow", "allowed"], ["block", "blocked"], ["escalate", "escalated"]];
  const of = (currency, kind) => sum(checks.filter((c) => c.action.currency === currency && c.decision === kind).map((c) => c.action.amount));
  return html`<div class="wide-table" tabindex="0" role="region" aria-label="Money by currency"><table><thead><tr><th scope="col">Currency</th>${kinds.map(([, word]) => html`<th scope="col">${word}</th>`)}</tr></thead>
    <tbody>${currencies.map((currency) => html`<tr><th scope="row">${currency}</th>${kinds.map(([kind]) => html`<td><${Amount} value=${of(currency, kind)} currency=${currency} /></td>`)}</tr>`)}</tbody></table></div>`;
}

// Top has the five names that stand in most checks.
function Top({ title, checks, of, show }) {
  const found = new Map();
  for (const c of checks) if (of(c)) found.set(of(c), [(found.get(of(c))?.[0] ?? 0) + 1, c]);
  const most = [...found.values()].sort((a, b) => b[0] - a[0]).slice(0, 5);
  return found.size > 1 && html`<section><h3>${title}</h3><ul>${most.map(([count, c]) => html`<li>${count} ${show(c)}</li>`)}</ul></section>`;
}

// Near lists the budgets of which half is used, each by its fullest counter.
function Near() {
  const { data, error } = useLoad(fullest, [], 60000);
  const near = data?.counters.filter((b) => share(b) >= 0.5).slice(0, 8);
  return html`<section><h2>Budgets near their limit</h2>
    <${Failure} error=${error} />
    ${data && html`<${BudgetTable} list=${listOf(near)} label="Budgets near their limit" empty=${html`<${Empty} title="None is used by half.">A budget appears here when half of it is used.<//>`} />
      <p class="hint"><a href=${link("budgets")}>All budgets</a>${data.more && html`. There are more counters than were looked at; the metric <code>spendgate_budget_used_ratio</code> watches them.`}</p>`}</section>`;
}
