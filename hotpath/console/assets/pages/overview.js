// Overview: what waits, money and decisions of a time, and the budgets that are fullest.
import { html } from "../lib/html.js";
import { get, listOf, useLoad } from "../lib/api.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { grouped, plural, took } from "../lib/words.js";
import { Agent, Amount, Counterparty, Empty, Failure, Filters, Head, Loading, Rule, Tabs, Time, WideTable } from "../lib/parts.js";
import { Chart } from "../lib/chart.js";
import { BudgetTable, fullest, share } from "./budgets.js";
import { Freeze } from "./freezes.js";

const lengths = { "1 hour": ["minute", 3600e3], "1 day": ["hour", 86400e3], "30 days": ["day", 29 * 86400e3] };
const decisions = [["allow", "Allowed"], ["escalate", "Escalated"], ["block", "Blocked"]];

export function Overview({ route, waiting }) {
  const { range, ...query } = route.query;
  const unsure = { ...query, outcome: "in_doubt" };
  const { data: doubt } = useLoad((signal) => get("/v1/checks", { query: { ...unsure, limit: 100 }, signal }), [query], 30000);
  const doubtful = doubt?.data.length ?? 0;
  const filters = (sums) => html`<${Filters} of=${[["policy_id", "Policy"], ["agent_id", "Agent"]]} values=${query} keep=${{ range }}
    list=${listOf([...sums?.rules ?? [], ...sums?.agents ?? []])} change=${(values) => go(link("overview", "", values))} />`;
  return html`
    <${Head} title="Overview"><${Freeze} /><//>
    ${may("approvals:decide") && html`<${Waiting} list=${waiting.list ?? []} />`}
    ${may("approvals:read") && html`<${Pending} />`}
    ${doubtful > 0 && html`<p><a href=${link("checks", "", unsure)}>${doubtful}${doubt.pagination.has_more && " or more"} in doubt</a>:
      somebody began to carry them out, and nobody knows whether it was done.</p>`}
    <${Period} route=${route} page=${["overview"]} query=${query} chart filters=${filters} />
    ${may("budgets:read") && may("policies:read") && html`<${Near} />`}`;
}

function Waiting({ list }) {
  const drafts = list.filter((a) => a.kind === "draft").length;
  if (list.length === 0) return html`<p class="lead">Nothing waits for you.</p>`;
  return html`<p class="lead"><a href=${link("approvals")}>${plural(list.length, "decision")} waiting for you</a>${drafts > 0
    && `, ${plural(drafts, "draft")} of policies among them`}</p>`;
}

// Period is what checks come to in a time that tabs choose; with chart also the numbers of decisions over it.
export function Period({ route, page: [page, part], query, chart, filters }) {
  const range = lengths[route.query.range] ? route.query.range : chart ? "1 day" : "30 days";
  const from = () => new Date(Date.now() - lengths[range][1]).toISOString();
  const read = (signal) => get("/v1/sums", { query: { ...query, from: from() }, signal });
  const { data, error, reload } = useLoad(read, [range, query], 60000);
  const tab = (name) => [`Last ${name.replace(/^1 /, "")}`, link(page, part, { ...route.query, range: name }), name === range];
  return html`
    ${filters?.(data)}
    <${Tabs} label="How long" of=${Object.keys(lengths).map(tab)} />
    <${Failure} error=${error} retry=${reload} />
    <div class=${chart ? "period both" : "period"}>${data ? html`<${Sums} sums=${data} query=${{ ...query, from: data.since ?? from() }}>
      ${chart && html`<${Decisions} key=${range} range=${range} query=${query} />`}<//>` : !error && html`<${Loading} />`}</div>`;
}

// Decisions are the numbers of decisions over time.
function Decisions({ range, query }) {
  const [step, length] = lengths[range];
  const { data, error, reload, loading } = useLoad((signal) => {
    const now = Date.now();
    return get("/v1/stats", { query: { ...query, from: new Date(now - length).toISOString(), to: new Date(now).toISOString(), step }, signal });
  }, [query], 30000);
  return html`<section><h2>Decisions</h2>
    <${Failure} error=${error} retry=${reload} />
    ${data ? html`<${Chart} stats=${data} to=${(more) => link("checks", "", { ...query, ...more })} />` : loading && html`<${Loading} />`}
  </section>`;
}

// Pending says what waits for people, whoever they are.
function Pending() {
  const { data, error } = useLoad((signal) => get("/v1/approvals", { query: { status: "pending", limit: 100 }, signal }), [], 15000);
  if (!data) return html`<${Failure} error=${error} />`;
  const [count, more] = [data.data.length, data.pagination.has_more];
  if (count === 0) return html`<p>No approval is pending.</p>`;
  const words = more ? `${count} or more approvals are` : `${plural(count, "approval")} ${count === 1 ? "is" : "are"}`;
  return html`<p><a href=${link("approvals", "", { show: "all", status: "pending" })}>${words} pending</a>${!more
    && html`, the oldest since <${Time} at=${data.data.at(-1).created_at} />`}.</p>`;
}

// Sums say what checks come to: money by currency and decision, who stands in most of them, and how long they took.
function Sums({ sums, query, children }) {
  const { checks, amounts, latency_ms: latency } = sums;
  const count = checks.allow + checks.block + checks.escalate;
  if (count === 0) return html`<${Empty} title="No checks in this time.">Choose a longer time above.
    Agents ask with <code>POST /v1/checks</code>; <a href=${link("policies")}>a policy</a> tries an action without one.<//>`;
  const to = (more) => link("checks", "", { ...query, ...more });
  const money = (value, currency) => html`<${Amount} value=${value} currency=${currency} bare />`;
  return html`<section><h2>Money</h2>
    <p class="hint">${sums.since
      ? html`Of the newest ${plural(count, "check")}, since <${Time} at=${sums.since} dated />: older ones are not added up.`
      : html`Of <a href=${to({})}>${plural(count, "check")}</a>.`} What was asked for, whatever became of it.</p>
    <${WideTable} class="money" label="Money by currency"
      head=${[html`<span class="sr">Currency</span>`, ...decisions.map(([kind, word]) => html`<a href=${to({ decision: kind })}>${word}</a>`)]}
      rows=${amounts.map((of) => [of.currency, ...decisions.map(([kind]) => [money(of[kind], of.currency)])])} /></section>
    ${children}
    <div class="tops">
      <${Top} title="Agents" of=${sums.agents} to=${to} show=${(a) => html`<${Agent} id=${a.agent_id} />`} />
      <${Top} title="Counterparties" of=${sums.counterparties} to=${to} show=${(c) => html`<${Counterparty} name=${c.counterparty} />`} />
      <${Top} title="Rules that blocked or escalated" of=${sums.rules} to=${to}
        show=${(r) => html`<${Rule} policy=${r.policy_id} id=${r.rule_id} /> <span class="hint">${r.policy_id}</span>`} />
    </div>
    <p class="hint">Half of them took ${took(latency.p50)} in the node, 95 % ${took(latency.p95)}, the slowest ${took(latency.max)}.</p>`;
}

// Top has the names that stand in most checks, and their numbers lead to these.
const Top = ({ title, of, to, show }) => of.length > 1 && html`<section><h3>${title}</h3>
  <ul>${of.slice(0, 5).map(({ checks, ...name }) => html`
    <li><a class="number" href=${to(name)}>${grouped(checks)}</a> <span>${show(name)}</span></li>`)}</ul></section>`;

// Near lists the budgets of which half is used, each by its fullest counter.
function Near() {
  const { data, error } = useLoad(fullest, [], 60000);
  const near = data?.counters.filter((b) => share(b) >= 0.5) ?? [];
  return html`<section><h2>Budgets near their limit</h2>
    <${Failure} error=${error} />
    ${data && html`<${BudgetTable} list=${listOf(near.slice(0, 8), { partial: near.length > 8 || data.more })} label="Budgets near their limit" empty=${html`<${Empty} title="None is used by half.">A budget appears here when half of it is used.<//>`} />
      <p class="hint"><a href=${link("budgets")}>All budgets</a>${data.more && html`. There are more counters than were looked at; the metric <code>spendgate_budget_used_ratio</code> watches them.`}</p>`}</section>`;
}
