// Grants: the limit of one counter of a budget, raised until a time.
import { html, useState } from "../lib/html.js";
import { get, post, segment, useLoad, usePages } from "../lib/api.js";
import { parse, print } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { localTime, plural } from "../lib/words.js";
import { Amount, Awaited, Badge, Decided, Empty, Facts, Failure, Field, Filters, Form, Head, Policy, Rule, Sure, Table, Time, timeColumn, useAct, Who, Whose } from "../lib/parts.js";

const filters = [["status", "State", ["pending", "open", "revoked", "ended"]], ["policy_id", "Policy"], ["rule_id", "Rule"], ["agent_id", "Agent"]];

// Added is what a grant adds.
export const Added = ({ g }) => (g.add_amount === null ? `+ ${plural(g.add_count, "action")}` : html`+ <${Amount} value=${g.add_amount} currency=${g.currency} />`);
const whose = (g) => html`<${Whose} per=${g.per} />`;

const columns = [
  ["Adds", (g) => html`<${Added} g=${g} />`, "what number", "9rem"],
  ["State", (g) => html`<${Badge} of=${g.status} />`, "aside", "6rem"],
  ["Rule", (g) => html`<${Rule} policy=${g.policy_id} id=${g.rule_id} />`, "line"],
  ["Policy", (g) => html`<${Policy} id=${g.policy_id} />`, "line"],
  ["For", whose], ["Note", (g) => html`<bdi>${g.note}</bdi>`, "", "minmax(0, 1.4fr)"], ["By", (g) => html`<${Who} of=${g.created_by} />`],
  ["Missing", (g) => g.missing > 0 && g.status === "pending" && html`${g.missing}<i> missing</i>`, "", "5rem"],
  timeColumn("Until", "until", "until"),
];

// Grant leads to the form with a counter filled in.
export const Grant = ({ b }) => may("budgets:grant") && html`<a class="name" href=${link("grants", "new", { policy_id: b.policy_id, rule_id: b.rule_id, per: print(b.per), currency: b.limit === null ? "" : b.currency, until: b.resets_at })}>Grant</a>`;

export function Grants({ route }) {
  if (route.part && route.part !== "new") return html`<${One} key=${route.part} id=${route.part} />`;
  if (route.part) return html`<${New} key=${JSON.stringify(route.query)} of=${route.query} />`;
  const list = usePages("/v1/grants", { ...route.query, limit: 100 });
  return html`
    <${Head} title="Grants" back=${[link("budgets"), "Budgets"]}><button onClick=${list.reload}>Refresh</button><//>
    <${Filters} of=${filters} values=${route.query} list=${list} change=${(values) => go(link("grants", "", values))} />
    <${Table} list=${list} columns=${columns} to=${(g) => link("grants", g.grant_id)} label="Grants, the newest first"
      empty=${html`<${Empty} title="No grants.">A grant raises one limit until a time. <a href=${link("budgets")}>Find the budget</a> and begin it there.<//>`} />`;
}

function New({ of }) {
  if (!of.policy_id || !of.rule_id) return html`<${Head} title="A grant" /><${Empty} title="For which budget?">Begin a grant at a budget's counter.<//>`;
  const grant = async ({ add, until = of.until, note }, key) => go(link("grants", (await post("/v1/grants", print({ policy_id: of.policy_id, rule_id: of.rule_id, per: parse(of.per || "{}"),
    [of.currency ? "add_amount" : "add_count"]: parse(add), until, note, idempotency_key: key }))).grant_id), true);
  return html`
    <${Head} title="A grant" back=${[link("budgets", "", { policy_id: of.policy_id }), `Budgets of ${of.policy_id}`]} />
    <p>More for <${Rule} policy=${of.policy_id} id=${of.rule_id} /> of <${Policy} id=${of.policy_id} />, ${whose({ per: parse(of.per || "{}") })} until a time. The rule stays as it is.</p>
    <div class="once"><${Form} label="A new grant" button="Grant it" send=${grant} doing="Grant again: it counts once." fields=${[
      ["add", of.currency ? `Amount to add, in ${of.currency}` : "Actions to add", { inputmode: "decimal", required: true, pattern: "[0-9]+([.][0-9]+)?" }],
      ["until", "Until", { type: "datetime-local", required: !of.until, hint: of.until ? `Empty: the end of the window, ${localTime(of.until, true)}` : "At most in 31 days" }],
      ["note", "Why", { required: true, maxlength: 4096, wide: true }]]} /></div>`;
}

function One({ id }) {
  const path = `/v1/grants/${segment(id)}`;
  const read = useLoad((signal) => get(path, { signal }), [id], 10000);
  const { act, failure } = useAct();
  const [note, setNote] = useState("");
  const decide = (verb) => act(() => post(`${path}/${verb}`, { note: note.trim() || null }).then(read.reload));
  const g = read.data;
  if (!g) return html`<${Awaited} title="Grant" of=${read} />`;
  return html`
    <${Head} title="Grant" back=${[link("grants"), "All grants"]} />
    <p class="state"><${Badge} of=${g.status} />${g.status === "pending" && html`<span>${plural(g.missing, "approval")} missing of ${g.required}</span>`}</p>
    <p class="ask"><${Added} g=${g} /><span class="verb">for <${Rule} policy=${g.policy_id} id=${g.rule_id} /> of <${Policy} id=${g.policy_id} /> ${whose(g)}</span></p>
    <${Facts} of=${[["Until", html`<${Time} at=${g.until} dated />`], ["Why", html`<bdi>${g.note}</bdi>`], ["By", html`<${Who} of=${g.created_by} />`], ["Granted", html`<${Time} at=${g.created_at} dated />`],
      ["Revoked", g.revoked && html`<${Who} of=${g.revoked} />, <${Time} at=${g.revoked.at} dated />${g.revoked.note && html`: <bdi>${g.revoked.note}</bdi>`}`]]} />
    ${g.approvals.length > 0 && html`<section><h2>Approvals</h2><${Decided} of=${g.approvals} /></section>`}
    <p><a href=${link("budgets", "", { policy_id: g.policy_id, rule_id: g.rule_id })}>What the budget has left</a></p>
    <${Failure} error=${failure} doing />
    ${(g.status === "pending" || g.status === "open") && may("budgets:grant") && html`<section><h2>Decide</h2><${Field} label="Note, for the record"><input value=${note} maxlength="4096" onInput=${(e) => setNote(e.currentTarget.value)} /><//>
      <div class="buttons"><${Sure} yes="Yes, revoke it" act=${() => decide("revoke")}>Revoke it<//>${g.status === "pending" && html` <button class="primary" onClick=${() => decide("approve")}>Approve it</button>`}</div></section>`}`;
}
