// What there is about one agent, counterparty, principal or rule.
import { html } from "../lib/html.js";
import { get, listOf, segment, useLoad, usePages } from "../lib/api.js";
import { print } from "../lib/json.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { ruleWords } from "../lib/words.js";
import { Empty, Failure, Head, Loading, Theirs, visible } from "../lib/parts.js";
import { ApprovalTable } from "./approvals.js";
import { BudgetTable } from "./budgets.js";
import { CheckTable } from "./checks.js";
import { Freeze } from "./freezes.js";
import { Period } from "./overview.js";

const kinds = { agents: ["Agent", "agent_id"], counterparties: ["Counterparty", "counterparty"], principals: ["Principal", "principal"] };

// About is the page of a name: what it asked, and what there is to know and to do about it.
export function About({ route, frozen }) {
  const [title, kind] = kinds[route.page];
  const name = route.part;
  const query = { [kind]: name };
  const person = kind === "principal"; // budgets and approvals know it by other names
  const checks = useLoad((signal) => get("/v1/checks", { query: { ...query, limit: 25 }, signal }), [query], 60000);
  const stopped = frozen.list.filter((f) => f.scope.all || f.scope[kind] === name);
  if (!name) return html`<${Head} title=${title} /><${Empty} title="Whose page?">Names in lists lead to theirs.<//>`;
  const list = checks.data?.data;
  const policies = [...new Set(list?.map((c) => c.action.policy_id))].slice(0, 5);
  const shown = person ? html`<bdi>${visible(name)}</bdi>` : html`<${Theirs} text=${name} />`;
  return html`
    <${Head} title=${html`${title} ${shown}`} back=${[link("checks"), "All checks"]}>
      ${stopped.length === 0 && html`<${Freeze} of=${query}>Freeze this ${title.toLowerCase()}<//>`}<//>
    ${stopped.length > 0 && html`<p class="short">Frozen: <bdi>${stopped[0].reason}</bdi>. <a href=${link("freezes")}>Why, and how it ends</a></p>`}
    ${list?.length !== 0 && html`<${Period} route=${route} page=${[route.page, name]} query=${query} chart=${kind === "agent_id"} />`}
    ${list && may("budgets:read") && !person && html`<${Budgets} query=${query} policies=${policies} />`}
    ${may("approvals:read") && html`<${Approvals} title=${person ? "What it decided" : "Approvals"}
      query=${person ? { decided_by: name } : query} />`}
    <${Newest} title=${person ? "What it asked" : "Checks"} of=${checks} query=${query} />`;
}

// Newest are the newest checks of a name.
const Newest = ({ title, of, query }) => html`
  <section><h2>${title}</h2><${Failure} error=${of.error} retry=${of.reload} />
    ${of.data ? html`<${CheckTable} list=${listOf(of.data.data, { partial: of.data.pagination.has_more })} label="Its newest checks"
      empty=${html`<${Empty} title="No checks.">Nothing was asked under this name that you may see.<//>`} />`
      : !of.error && html`<${Loading} />`}
    ${of.data?.pagination.has_more && html`<p><a href=${link("checks", "", query)}>All of its checks</a></p>`}</section>`;

function Approvals({ title, query }) {
  const { data } = useLoad((signal) => get("/v1/approvals", { query: { ...query, limit: 10 }, signal }), [query]);
  return data?.data.length > 0 && html`<section><h2>${title}</h2><${ApprovalTable} list=${listOf(data.data, { partial: data.pagination.has_more })} />
    <p><a href=${link("approvals", "", { show: "all", ...query })}>All of them</a></p></section>`;
}

// Budgets are the counters that count for it, of the policies that its newest checks were judged by.
function Budgets({ query, policies }) {
  const { data, error } = useLoad(async (signal) => (await Promise.all(policies.map((policy_id) => get("/v1/budgets", { query: { policy_id, ...query, limit: 100 }, signal })))).flatMap((page) => page.data), [policies]);
  return html`<${Failure} error=${error} />${data?.length > 0 && html`<section><h2>Budgets</h2><${BudgetTable} list=${listOf(data, { partial: true })} label="Budgets" /></section>`}`;
}

// RulePage is a rule of the version in force, what its budget has left, and what it blocked or escalated.
export function RulePage({ policy, id, route }) {
  const { data, error, reload } = useLoad((signal) => get(`/v1/policies/${segment(policy)}`, { signal }), [policy]);
  const rule = data?.rules.find((r) => r.rule_id === id);
  return html`
    <${Head} title=${html`Rule <code>${id}</code>`} back=${[link("policies", policy), policy]} />
    <${Failure} error=${error} retry=${reload} />
    ${data && (rule ? html`<p>${rule.description}</p><p class="hint">It ${ruleWords(rule)}, by version ${data.version}.</p><details class="exactly"><summary>As JSON</summary><pre class="json">${print(rule)}</pre></details>`
      : html`<p class="hint">Version ${data.version}, which is in force, has no rule of this name.</p>`)}
    ${rule?.rule_type === "budget" && may("budgets:read") && html`<${Counters} policy=${policy} id=${id} />`}
    ${may("checks:read") && html`<${Fired} policy=${policy} id=${id} route=${route} />`}`;
}

const Counters = ({ policy, id }) => html`<section><h2>What it has left</h2><${BudgetTable} label="Counters"
  list=${usePages("/v1/budgets", { policy_id: policy, rule_id: id, limit: 100 })} empty=${html`<${Empty} title="Nothing was used yet." />`} /></section>`;

// Fired is what the rule blocked or escalated.
function Fired({ policy, id, route }) {
  const query = { policy_id: policy, rule_id: id };
  const checks = useLoad((signal) => get("/v1/checks", { query: { ...query, limit: 25 }, signal }), [query], 60000);
  if (checks.data?.data.length === 0) return html`<h2 class="part">What it blocked or escalated</h2><p>Nothing so far.</p>`;
  return html`<h2 class="part">What it blocked or escalated</h2>
    <${Period} route=${route} page=${["policies", [policy, "rules", id]]} query=${query} />
    <${Newest} title="Checks" of=${checks} query=${query} />`;
}
