// Grants: the limit of one counter of a budget, raised until a time.
import { html, useRef, useState } from "../lib/html.js";
import { get, post, segment } from "../lib/api.js";
import { exact, parse, print } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { useLoad, usePages } from "../lib/load.js";
import { localTime, plural } from "../lib/words.js";
import { Filters, Table } from "../lib/table.js";
import { Amount, Badge, Empty, Facts, Failure, Field, Head, Loading, PlainTime, Policy, Rule, Sure, Theirs, Time, Who } from "../lib/parts.js";

const filters = [["status", "State", ["pending", "open", "revoked", "ended"]], ["policy_id", "Policy"], ["rule_id", "Rule"], ["agent_id", "Agent"]];

// Added is what a grant adds.
export const Added = ({ g }) => (g.add_amount === null ? `+ ${plural(g.add_count, "action")}` : html`+ <${Amount} value=${g.add_amount} currency=${g.currency} />`);
const whose = (g) => Object.values(g.per ?? {}).map((value) => html`<${Theirs} text=${exact(value)} /> `);
const person = (p) => html`${p.principal === null ? "an admin" : html`<bdi title=${p.principal}>${p.name || html`<${Who} name=${p.principal} />`}</bdi>`}`;

const columns = [
  ["Adds", (g) => html`<${Added} g=${g} />`, "what number", "9rem"],
  ["State", (g) => html`<${Badge} of=${g.status} />`, "aside", "6rem"],
  ["Rule", (g) => html`<${Rule} policy=${g.policy_id} id=${g.rule_id} />`, "line"],
  ["Policy", (g) => html`<${Policy} id=${g.policy_id} />`, "line"],
  ["Whose", whose], ["Note", (g) => html`<bdi>${g.note}</bdi>`, "", "minmax(0, 1.4fr)"], ["By", (g) => person(g.created_by)],
  ["Missing", (g) => g.missing > 0 && g.status === "pending" && html`${g.missing}<i> missing</i>`, "", "5rem"],
  ["Until", (g) => html`<i>until </i>${localTime(g.until)}`, "", "10.5rem"],
];

// Grant leads to the form with a counter filled in.
export const Grant = ({ b }) => may("budgets:grant") && html`<a class="name" href=${link("grants", "new", { policy_id: b.policy_id, rule_id: b.rule_id, per: print(b.per), currency: b.limit === null ? "" : b.currency, until: b.resets_at })}>Grant more</a>`;

export function Grants({ route }) {
  if (route.part && route.part !== "new") return html`<${One} key=${route.part} id=${route.part} />`;
  if (route.part) return html`<${New} key=${JSON.stringify(route.query)} of=${route.query} />`;
  const list = usePages("/v1/grants", { ...route.query, limit: 100 });
  return html`
    <p class="crumbs"><a class="back" href=${link("budgets")}>Budgets</a></p>
    <${Head} title="Grants"><button onClick=${list.reload}>Refresh</button><//>
    <${Filters} of=${filters} values=${route.query} list=${list} change=${(values) => go(link("grants", "", values))} />
    <${Table} list=${list} columns=${columns} to=${(g) => link("grants", g.grant_id)} label="Grants, the newest first"
      empty=${html`<${Empty} title="No grants.">A grant raises the limit of one counter until a time. Begin one at a budget.<//>`} />`;
}

function New({ of }) {
  const [failure, setFailure] = useState(null);
  const key = useRef(""); // pressed twice, it is one grant; what is edited is another
  const latest = of.until ? new Date(of.until) : null;
  const grant = async (e) => {
    e.preventDefault();
    const { add, until, note } = Object.fromEntries(new FormData(e.currentTarget));
    key.current ||= crypto.getRandomValues(new Uint32Array(4)).join("-");
    try {
      const body = { policy_id: of.policy_id, rule_id: of.rule_id, per: parse(of.per || "{}"), [of.currency ? "add_amount" : "add_count"]: parse(add), until: until ? new Date(until).toISOString() : of.until, note, idempotency_key: key.current };
      go(link("grants", (await post("/v1/grants", print(body))).grant_id), true);
    } catch (error) {
      setFailure(error);
    }
  };
  if (!of.policy_id || !of.rule_id) return html`<${Head} title="A grant" /><${Empty} title="For which budget?">Begin a grant at a budget's counter.<//>`;
  return html`
    <p class="crumbs"><a class="back" href=${link("budgets", "", { policy_id: of.policy_id })}>Budgets of ${of.policy_id}</a></p>
    <${Head} title="A grant" />
    <p>More for <code>${of.rule_id}</code> of <${Policy} id=${of.policy_id} />, ${whose({ per: parse(of.per || "{}") })} until a time. The rule stays as it is.</p>
    <form class="once" aria-label="A new grant" onInput=${() => { key.current = ""; }} onSubmit=${grant}>
      <div class="try"><${Field} label=${of.currency ? `Amount to add, in ${of.currency}` : "Actions to add"}><input name="add" inputmode="decimal" required pattern="[0-9]+([.][0-9]+)?" autocomplete="off" /><//>
        <${Field} label="Until" hint=${latest ? `Empty: the end of the window, ${localTime(of.until)}` : "At most in 31 days"}><input type="datetime-local" name="until" required=${!latest} /><//></div>
      <${Field} label="Note: why"><input name="note" required maxlength="4096" autocomplete="off" /><//>
      <${Failure} error=${failure} doing="Grant again: it counts once." />
      <div class="buttons"><button class="primary">Grant it</button></div>
    </form>`;
}

function One({ id }) {
  const path = `/v1/grants/${segment(id)}`;
  const { data: g, error, reload } = useLoad((signal) => get(path, { signal }), [id], 10000);
  const [failure, setFailure] = useState(null);
  const [note, setNote] = useState("");
  const act = async (verb) => {
    try {
      setFailure(null);
      await post(`${path}/${verb}`, { note: note.trim() || null });
      reload();
    } catch (e) {
      setFailure(e);
    }
  };
  if (!g) return html`<${Head} title="Grant" />${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}`;
  const open = g.status === "pending" || g.status === "open";
  return html`
    <p class="crumbs"><a class="back" href=${link("grants")}>All grants</a></p>
    <${Head} title="Grant" />
    <p class="state"><${Badge} of=${g.status} />${g.status === "pending" && html`<span>${plural(g.missing, "approval")} missing of ${g.required}</span>`}</p>
    <p class="ask"><${Added} g=${g} /><span class="verb">for <${Rule} policy=${g.policy_id} id=${g.rule_id} /> of <${Policy} id=${g.policy_id} /> ${whose(g)}</span></p>
    <${Facts} of=${[["Until", html`<${Time} at=${g.until} />`], ["Why", html`<bdi>${g.note}</bdi>`], ["By", person(g.created_by)], ["Granted", html`<${Time} at=${g.created_at} />`],
      ["Revoked", g.revoked && html`${person(g.revoked)}, <${Time} at=${g.revoked.at} />${g.revoked.note && html`: <bdi>${g.revoked.note}</bdi>`}`]]} />
    ${g.approvals.length > 0 && html`<section><h2>Approvals</h2><ul class="decisions">${g.approvals.map((a) => html`<li>${person(a)}, <${PlainTime} at=${a.at} />${a.note && html`<p><bdi>${a.note}</bdi></p>`}</li>`)}</ul></section>`}
    <p><a href=${link("budgets", "", { policy_id: g.policy_id, rule_id: g.rule_id })}>What the budget has left</a></p>
    <${Failure} error=${failure} doing />
    ${open && may("budgets:grant") && html`<section><h2>Decide</h2><${Field} label="Note, for the record"><input value=${note} maxlength="4096" onInput=${(e) => setNote(e.currentTarget.value)} /><//>
      <div class="buttons"><${Sure} yes="Yes, revoke it" act=${() => act("revoke")}>Revoke it<//>${g.status === "pending" && html` <button class="primary" onClick=${() => act("approve")}>Approve it</button>`}</div></section>`}`;
}
