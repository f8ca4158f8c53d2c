// Budgets: what is used and left of each counter of a policy.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { go, link } from "../lib/route.js";
import { useLoad, useNow, usePages } from "../lib/load.js";
import { span } from "../lib/words.js";
import { exact } from "../lib/json.js";
import { Amount, Empty, Failure, Field, Head, Loading, Pages, Theirs, Time } from "../lib/parts.js";

// share returns how full a counter is, from 0 to 1 and above. It is drawn, never shown as text.
export function share(b) {
  const of = (used, most) => (most === null ? 0 : Number(most) === 0 ? 1 : Number(used) / Number(most));
  return Math.max(of(String(b.used), b.limit === null ? null : String(b.limit)), of(b.count, b.max_count));
}

// countersOf returns the first few hundred counters of a policy, and whether there are more.
export async function countersOf(policy, signal) {
  const counters = [];
  let cursor;
  for (let page = 0; page < 5; page++) {
    const read = await get("/v1/budgets", { query: { policy_id: policy, limit: 100, cursor }, signal });
    counters.push(...read.data);
    if (!(cursor = read.pagination.next_cursor)) return { counters, more: false };
  }
  return { counters, more: true };
}

export function Budgets({ route }) {
  const { data, error, reload } = useLoad((signal) => get("/v1/policies", { query: { limit: 100 }, signal }), []);
  if (!data) return html`<${Head} title="Budgets" />${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}`;
  const limited = data.data.filter((p) => p.rules.some((r) => r.rule_type === "budget"));
  const policy = route.query.policy_id || limited[0]?.policy_id;
  const show = (values) => go(link("budgets", "", { ...route.query, policy_id: policy, ...values }));
  if (!policy) return html`<${Head} title="Budgets" /><${Empty} title="No policy has a budget.">Add a rule of type <code>budget</code> to a policy.<//>`;
  return html`
    <${Head} title="Budgets" />
    <div class="filters"><form onSubmit=${(e) => { e.preventDefault(); show(Object.fromEntries(new FormData(e.currentTarget))); }}>
      <${Field} label="Policy"><select name="policy_id" onChange=${(e) => show({ policy_id: e.currentTarget.value })}>
        ${[...new Set([policy, ...limited.map((p) => p.policy_id)])].map((id) => html`<option selected=${id === policy}>${id}</option>`)}</select><//>
      <${Field} label="Agent"><input name="agent_id" value=${route.query.agent_id ?? ""} autocomplete="off" /><//>
      <${Field} label="Counterparty"><input name="counterparty" value=${route.query.counterparty ?? ""} autocomplete="off" /><//>
      <div class="buttons"><button class="primary">Show</button></div></form></div>
    <${Counters} key=${policy} policy=${policy} agent=${route.query.agent_id} counterparty=${route.query.counterparty} />`;
}

function Counters({ policy, agent, counterparty }) {
  const list = usePages("/v1/budgets", { policy_id: policy, agent_id: agent, counterparty, limit: 100 });
  return html`<${Pages} list=${list} label="Counters" row=${(b) => html`<${Counter} key=${b.rule_id + JSON.stringify(b.per)} b=${b} />`}
    empty=${html`<${Empty} title=${agent || counterparty ? "Nothing is used of these." : "Nothing was used yet."}>A counter appears with the first allowed action that it counts.<//>`} />`;
}

export function Counter({ b }) {
  const now = useNow(60000);
  const full = share(b);
  const per = Object.entries(b.per);
  return html`
    <li><div class="row counter">
      <span class="what"><code>${b.rule_id}</code>${per.map(([name, value]) => html` <span class="hint">${name.replace("_id", "")}</span> <${Theirs} text=${exact(value)} />`)}</span>
      <span class="side-note">${b.window ?? `${b.rolling_minutes} min`}${b.resets_at && html` · resets ${Date.parse(b.resets_at) > now ? `in ${span(Date.parse(b.resets_at) - now)}` : "now"}`}</span>
      <span class="to"><span class="bar" aria-hidden="true"><span class=${full >= 1 ? "full" : full >= 0.8 ? "near" : ""} style=${{ width: `${Math.min(100, full * 100)}%` }}></span></span></span>
      <span class="by">${b.limit !== null && html`<${Amount} value=${b.used} currency=${b.currency} /> of <${Amount} value=${b.limit} currency=${b.currency} /> used, <${Amount} value=${b.remaining} currency=${b.currency} /> left`}
        ${b.max_count !== null && html`${b.limit !== null && " · "}${b.count} of ${b.max_count} actions, ${b.remaining_count} left`}
        ${b.resets_at && html` · <${Time} at=${b.resets_at} now=${now} />`}</span>
    </div></li>`;
}
