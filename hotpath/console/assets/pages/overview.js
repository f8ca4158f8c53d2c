// Overview: decisions over time, what waits, and budgets near their limit.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { sum } from "../lib/decimal.js";
import { useLoad } from "../lib/load.js";
import { plural, took as inWords } from "../lib/words.js";
import { Chart } from "../lib/chart.js";
import { Amount, Empty, Failure, Head, Loading, Theirs, Time } from "../lib/parts.js";
import { Freeze } from "./freezes.js";
import { Counter, countersOf, share } from "./budgets.js";

const ranges = { "1 hour": ["minute", 3600e3], "1 day": ["hour", 86400e3], "30 days": ["day", 29 * 86400e3] };

export function Overview({ route, waiting }) {
  const range = ranges[route.query.range] ? route.query.range : "1 day";
  const [step, length] = ranges[range];
  const stats = useLoad((signal) => {
    const now = Date.now();
    return get("/v1/stats", { query: { from: new Date(now - length).toISOString(), to: new Date(now).toISOString(), step }, signal });
  }, [range], 30000);
  return html`
    <${Head} title="Overview"><${Freeze} /><//>
    ${may("approvals:decide") && html`<p class="lead">${waiting.count ? html`<a href=${link("approvals")}>${plural(waiting.count, "decision")} waiting for you</a>` : "Nothing waits for you."}</p>`}
    ${may("approvals:read") && html`<${Pending} />`}
    <section><h2>Decisions</h2>
      <div class="tabs" role="group" aria-label="How long">${Object.keys(ranges).map((name) => html`<a href=${link("overview", "", { range: name })} aria-current=${name === range ? "true" : undefined}>${name}</a>`)}</div>
      ${stats.error?.status === 404 ? html`<${Empty} title="This node counts no decisions." />` : html`<${Failure} error=${stats.error} retry=${stats.reload} />`}
      ${stats.data ? html`<${Chart} stats=${stats.data} />` : stats.loading && html`<${Loading} />`}
    </section>
    <${Newest} />
    ${may("budgets:read") && may("policies:read") && html`<${Near} />`}`;
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

// Newest says of the newest checks what money they were about, who asked, which rules decided, and how long they took.
function Newest() {
  const { data, error } = useLoad((signal) => get("/v1/checks", { query: { limit: 100 }, signal }), [], 30000);
  const { data: doubt } = useLoad((signal) => get("/v1/checks", { query: { outcome: "in_doubt", limit: 100 }, signal }), [], 30000);
  const checks = data?.data ?? [];
  const doubtful = doubt?.data.length ?? 0;
  return html`
    ${doubtful > 0 && html`<p><a href=${link("checks", "", { outcome: "in_doubt" })}>${doubt.pagination.has_more ? `${doubtful} or more` : doubtful} in doubt</a>: redeemed, and nobody knows whether they were carried out.</p>`}
    <${Failure} error=${error} />
    ${checks.length > 0 && html`<section><h2>The newest ${plural(checks.length, "check")}</h2>
      <p class="hint">Since <${Time} at=${checks.at(-1).timestamp} />.</p>
      <${Money} checks=${checks} />
      <div class="facts"><${Top} title="Agents" to=${(name) => link("checks", "", { agent_id: name })} checks=${checks} of=${(c) => c.action.agent_id} /><${Top} title="Rules that blocked or escalated" to=${(name) => link("violations", "", { policy_id: name.split(" ")[0] })} checks=${checks} of=${(c) => c.violated_rule_id && `${c.action.policy_id} ${c.violated_rule_id}`} /></div></section>`}
    <${Latency} checks=${data && checks} />`;
}

// Money has the sums of amounts by currency and decision.
function Money({ checks }) {
  const currencies = [...new Set(checks.map((c) => c.action.currency))].sort();
  const kinds = [["allow", "allowed"], ["block", "blocked"], ["escalate", "escalated"]];
  const of = (currency, kind) => sum(checks.filter((c) => c.action.currency === currency && c.decision === kind).map((c) => c.action.amount));
  return html`<div class="wide-table" tabindex="0" role="region" aria-label="Money by currency"><table><thead><tr><th scope="col">Currency</th>${kinds.map(([, word]) => html`<th scope="col">${word}</th>`)}</tr></thead>
    <tbody>${currencies.map((currency) => html`<tr><th scope="row">${currency}</th>${kinds.map(([kind]) => html`<td><${Amount} value=${of(currency, kind)} currency=${currency} /></td>`)}</tr>`)}</tbody></table></div>`;
}

// Top has the five names that stand in most checks, with links to these.
function Top({ title, to, checks, of }) {
  const counts = new Map();
  for (const name of checks.map(of).filter(Boolean)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 5);
  return most.length > 0 && html`<section><h3>${title}</h3><ul>${most.map(([name, count]) => html`<li>${count} <a href=${to(name)}><${Theirs} text=${name} /></a></li>`)}</ul></section>`;
}

// Latency says how long the newest checks took, by what is on record with each of them.
function Latency({ checks }) {
  const took = (checks ?? []).map((c) => c.latency_ms).sort((a, b) => a - b);
  const within = (share) => inWords(took[Math.ceil(took.length * share) - 1]);
  return html`
    <section><h2>How long checks take</h2>
      ${checks && took.length === 0 && html`<p class="hint">No check was recorded yet.</p>`}
      ${took.length > 0 && html`<p>Of the newest ${plural(took.length, "check")} half took ${within(0.5)}, 95 % ${within(0.95)}, the slowest ${within(1)}.</p>
        <p class="hint">In the node, from the first byte read to the decision; since <${Time} at=${checks.at(-1).timestamp} />.</p>`}
    </section>`;
}

// Near lists the counters that are used for the most part, of the first policies.
function Near() {
  const { data, error } = useLoad(async (signal) => {
    const policies = await get("/v1/policies", { query: { limit: 100 }, signal });
    const limited = policies.data.filter((p) => p.rules.some((r) => r.rule_type === "budget")).slice(0, 10);
    const read = await Promise.all(limited.map((p) => countersOf(p.policy_id, signal)));
    const near = read.flatMap((of) => of.counters).filter((b) => share(b) >= 0.5).sort((a, b) => share(b) - share(a)).slice(0, 8);
    return { near, all: !policies.pagination.has_more && limited.length < 10 && read.every((of) => !of.more) };
  }, [], 60000);
  return html`
    <section><h2>Budgets near their limit</h2>
      <${Failure} error=${error} />
      ${data && (data.near.length ? html`<ul class="rows">${data.near.map((b) => html`<${Counter} key=${b.policy_id + b.rule_id + JSON.stringify(b.per)} b=${b} />`)}</ul>`
        : html`<${Empty} title="None is used by half.">A budget appears here when half of it is used.<//>`)}
      ${data && !data.all && html`<p class="hint">There are more counters than were looked at. <a href=${link("budgets")}>All of them</a> are under Budgets, and the metric <code>spendgate_budget_used_ratio</code> watches.</p>`}
    </section>`;
}
