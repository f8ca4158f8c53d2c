// Overview: decisions over time, money, what waits, and the budgets that are fullest.
import { html } from "../lib/html.js";
import { get, listOf, useLoad } from "../lib/api.js";
import { sum } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { grouped, plural, took } from "../lib/words.js";
import { Agent, Amount, Counterparty, Empty, Failure, Filters, Head, Loading, Rule, Tabs, Time, WideTable } from "../lib/parts.js";
import { Chart } from "../lib/chart.js";
import { BudgetTable, fullest, share } from "./budgets.js";
import { Freeze } from "./freezes.js";

const lengths = { "1 hour": ["minute", 3600e3], "1 day": ["hour", 86400e3], "30 days": ["day", 29 * 86400e3] };

export function Overview({ route, waiting }) {
  const { range, ...query } = route.query;
  const { data, error } = useLoad((signal) => newest(query, signal), [query], 60000);
  const { data: doubt } = useLoad((signal) => get("/v1/checks", { query: { ...query, outcome: "in_doubt", limit: 100 }, signal }), [query], 30000);
  const doubtful = doubt?.data.length ?? 0;
  const drafts = (waiting.list ?? []).filter((a) => a.kind === "draft").length;
  return html`
    <${Head} title="Overview"><${Freeze} /><//>
    ${may("approvals:decide") && html`<p class="lead">${waiting.count ? html`<a href=${link("approvals")}>${plural(waiting.count, "decision")} waiting for you</a>${drafts > 0 && `, ${plural(drafts, "draft")} of policies among them`}` : "Nothing waits for you."}</p>`}
    ${may("approvals:read") && html`<${Pending} />`}
    ${doubtful > 0 && html`<p><a href=${link("checks", "", { ...query, outcome: "in_doubt" })}>${doubt.pagination.has_more ? `${doubtful} or more` : doubtful} in doubt</a>: redeemed, and nobody knows whether they were carried out.</p>`}
    <${Filters} of=${[["policy_id", "Policy"], ["agent_id", "Agent"]]} values=${query} keep=${{ range }} list=${data && listOf(data)} change=${(values) => go(link("overview", "", values))} />
    <${Decisions} route=${route} page=${["overview"]} query=${query} />
    <${Failure} error=${error} />
    ${data ? html`<${Newest} checks=${data} query=${query} />` : !error && html`<${Loading} />`}
    ${may("budgets:read") && may("policies:read") && html`<${Near} />`}`;
}

// newest reads the newest 500 checks, in ten pages at most: pages may be short while there are more.
export async function newest(query, signal) {
  const all = [];
  let cursor;
  for (let pages = 0; pages < 10 && cursor !== null && all.length < 500; pages++) {
    const page = await get("/v1/checks", { query: { ...query, limit: 100, cursor }, signal });
    all.push(...page.data);
    cursor = page.pagination.next_cursor;
  }
  return all;
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
    ${stats.data ? html`<${Chart} stats=${stats.data} to=${(more) => link("checks", "", { ...query, ...more })} />` : stats.loading && html`<${Loading} />`}
  </section>`;
}

// Pending says what waits for people, whoever they are.
function Pending() {
  const { data, error } = useLoad((signal) => get("/v1/approvals", { query: { status: "pending", limit: 100 }, signal }), [], 15000);
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return null;
  const [count, more] = [data.data.length, data.pagination.has_more];
  if (count === 0) return html`<p>No approval is pending.</p>`;
  return html`<p><a href=${link("approvals", "", { show: "all", status: "pending" })}>${more ? `${count} or more approvals are` : `${plural(count, "approval")} ${count === 1 ? "is" : "are"}`} pending</a>${!more && html`, the oldest since <${Time} at=${data.data.at(-1).created_at} />`}.</p>`;
}

// Newest says of checks what money they were about, who asked, which rules decided, and how long they took by their own record.
export function Newest({ checks, query = {} }) {
  if (checks.length === 0) return null;
  const times = checks.map((c) => c.latency_ms).sort((a, b) => a - b);
  const within = (part) => took(times[Math.ceil(times.length * part) - 1]);
  const since = { ...query, from: checks.at(-1).timestamp };
  return html`<section><h2>The newest ${plural(checks.length, "check")}</h2>
    <p class="hint">Since <${Time} at=${since.from} dated />.</p>
    <${Money} checks=${checks} query=${since} />
    <div class="tops">
      <${Top} title="Agents" checks=${checks} query=${since} of=${(c) => ({ agent_id: c.action.agent_id })} show=${(c) => html`<${Agent} id=${c.action.agent_id} />`} />
      <${Top} title="Counterparties" checks=${checks} query=${since} of=${(c) => ({ counterparty: c.action.counterparty })} show=${(c) => html`<${Counterparty} name=${c.action.counterparty} />`} />
      <${Top} title="Rules that blocked or escalated" checks=${checks} query=${since} of=${(c) => c.violated_rule_id && { policy_id: c.action.policy_id, reason_code: c.reason_code, rule: c.violated_rule_id }} show=${(c) => html`<${Rule} policy=${c.action.policy_id} id=${c.violated_rule_id} /> <span class="hint">${c.action.policy_id}</span>`} />
    </div>
    <p class="hint">Half of them took ${within(0.5)} in the node, 95 % ${within(0.95)}, the slowest ${within(1)}.</p></section>`;
}

// Money has the sums of amounts by currency and decision.
function Money({ checks, query }) {
  const currencies = [...new Set(checks.map((c) => c.action.currency))].sort();
  const kinds = [["allow", "allowed"], ["block", "blocked"], ["escalate", "escalated"]];
  const of = (currency, kind) => sum(checks.filter((c) => c.action.currency === currency && c.decision === kind).map((c) => c.action.amount));
  return html`<${WideTable} label="Money by currency" head=${["Currency", ...kinds.map(([kind, word]) => html`<a href=${link("checks", "", { ...query, decision: kind })}>${word}</a>`)]}
    rows=${currencies.map((currency) => [currency, ...kinds.map(([kind]) => [html`<${Amount} value=${of(currency, kind)} currency=${currency} />`])])} />`;
}

// Top has the five names that stand in most checks, and their numbers lead to these.
function Top({ title, checks, query, of, show }) {
  const found = new Map();
  for (const c of checks) {
    const name = of(c);
    const key = name && JSON.stringify(name);
    if (key) found.set(key, { count: (found.get(key)?.count ?? 0) + 1, c, name });
  }
  const most = [...found.values()].sort((a, b) => b.count - a.count).slice(0, 5);
  return found.size > 1 && html`<section><h3>${title}</h3><ul>${most.map(({ count, c, name: { rule: _, ...name } }) => html`<li><a class="number" href=${link("checks", "", { ...query, ...name })}>${grouped(count)}</a> <span>${show(c)}</span></li>`)}</ul></section>`;
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
