// Budgets: what is used and left of the counters, fullest first, or of one policy.
import { html } from "../lib/html.js";
import { get, listOf, useLoad, usePages } from "../lib/api.js";
import { exact, sum } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { grouped, minutes, money, plural, shortTime } from "../lib/words.js";
import { Amount, Awaited, Bar, Empty, Filters, Head, Policy, Rule, Table, Whose } from "../lib/parts.js";
import { Grant } from "./grants.js";

// share returns how full a counter is, from 0 to 1 and above. It is drawn, never shown as text.
export function share(b) {
  const of = (used, most, more) => { const all = Number(exact(most)) + Number(exact(more ?? 0)); return most === null ? 0 : all === 0 ? 1 : Number(exact(used)) / all; };
  return Math.max(of(b.used, b.limit, b.granted), of(b.count, b.max_count, b.granted_count));
}

// countersOf returns the first few hundred counters of a policy, and whether there are more.
export async function countersOf(policy, signal, most = 5) {
  const counters = [];
  let cursor;
  for (let page = 0; page < most; page++) {
    const read = await get("/v1/budgets", { query: { policy_id: policy, limit: 100, cursor }, signal });
    counters.push(...read.data);
    if (!(cursor = read.pagination.next_cursor)) return { counters, more: false };
  }
  return { counters, more: true };
}

// fullest returns the fullest counter of each budget of the policies, and whether there are more than were looked at.
export async function fullest(signal) {
  const policies = await get("/v1/policies", { query: { limit: 100 }, signal });
  const limited = policies.data.filter((p) => p.rules.some((r) => r.rule_type === "budget"));
  let more = policies.pagination.has_more;
  const budgets = new Map();
  for (let i = 0; i < limited.length; i += 5) {
    for (const of of await Promise.all(limited.slice(i, i + 5).map((p) => countersOf(p.policy_id, signal, 2)))) {
      more ||= of.more;
      for (const b of of.counters) {
        const name = `${b.policy_id} ${b.rule_id}`;
        const before = budgets.get(name);
        budgets.set(name, { ...(before && share(before) >= share(b) ? before : b), of: (before?.of ?? 0) + 1 });
      }
    }
  }
  return { counters: [...budgets.values()].sort((a, b) => share(b) - share(a)), more };
}

const filters = [["policy_id", "Policy"], ["rule_id", "Rule"], ["agent_id", "Agent"], ["counterparty", "Counterparty"]];

export function Budgets({ route }) {
  const { policy_id } = route.query;
  return html`
    <${Head} title="Budgets">${may("budgets:grant") && html`<a class="button" href=${link("grants")}>Grants</a>`}<//>
    <${Filters} of=${filters} values=${route.query} change=${(values) => go(link("budgets", "", values))} />
    ${policy_id ? html`<${Counters} query=${route.query} />` : html`${Object.keys(route.query).length > 0 && html`<p class="hint">Name a policy, too: the others apply to its budgets.</p>`}<${Fullest} />`}`;
}

function Fullest() {
  const read = useLoad(fullest, [], 60000);
  const { data } = read;
  if (!data) return html`<${Awaited} of=${read} />`;
  return html`<${BudgetTable} list=${listOf(data.counters, { partial: data.more })} label="Budgets, the fullest first" empty=${html`<${Empty} title="Nothing was used yet.">A budget is a rule of type <code>budget</code> <a href=${link("policies")}>in a policy</a>. It appears with the first allowed action that it counts.<//>`} />
    ${data.more && html`<p class="hint">Not all counters were looked at: name a policy to see all of its.</p>`}`;
}

function Counters({ query }) {
  const list = usePages("/v1/budgets", { ...query, limit: 100 });
  return html`<${BudgetTable} list=${list} label="Counters" empty=${html`<${Empty} title="Nothing is used of these.">A counter appears with the first allowed action that it counts.<//>`} />`;
}

const both = (b, amount, count) => html`${b.limit !== null && html`<${Amount} value=${amount} currency=${b.currency} />`}${b.max_count !== null && html`${b.limit !== null && " · "}${plural(count, "action")}`}`;
const window = (b) => html`${b.window ?? minutes(b.rolling_minutes)}${b.resets_at && html` <span class="hint">to ${shortTime(b.resets_at)}</span>`}`;
const limits = (b) => html`<span title=${Number(exact(b.granted ?? 0)) > 0 || b.granted_count > 0 ? `${[b.limit && money(b.granted, b.currency), b.max_count && plural(b.granted_count, "action")].filter(Boolean).join(", ")} of it granted` : ""}>${both(b, sum([b.limit, b.granted]), (b.max_count ?? 0) + (b.granted_count ?? 0))}</span>`;

const columns = [
  ["Rule", (b) => html`<${Rule} policy=${b.policy_id} id=${b.rule_id} />`, "what", "minmax(0, .8fr)"],
  ["Window", window, "aside far", "13rem"],
  ["Policy", (b) => html`<${Policy} id=${b.policy_id} />`, "line", "minmax(0, 1fr)"],
  ["", (b) => html`<${Bar} full=${share(b)} />`, "line far", "3.5rem"],
  ["Used", (b) => html`${both(b, b.used, b.count)}<i> used</i>`, "number", "8rem"],
  ["Limit and grants", (b) => html`<i>of </i>${limits(b)}`, "number", "8rem"],
  ["Left", (b) => html`${both(b, b.remaining, b.remaining_count)}<i> left</i>`, "number", "8rem"],
  ["For", (b) => html`<${Whose} per=${b.per} />${b.of > 1 && html`<a class="name" href=${link("budgets", "", { policy_id: b.policy_id, rule_id: b.rule_id })}>fullest of ${grouped(b.of)}</a>`}`, "", "minmax(0, 1.9fr)"],
  ["", (b) => html`<${Grant} b=${b} />`, "", "3rem"],
];

export const BudgetTable = (props) => html`<${Table} columns=${columns} ...${props} />`;
