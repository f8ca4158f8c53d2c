// Freezes: what is stopped, by whom and why; a new freeze, and its end (S87).
import { html, useState } from "../lib/html.js";
import { get, post, segment, useLoad, usePages } from "../lib/api.js";
import { exact } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { asAdmin, may } from "../lib/session.js";
import { localTime, plural } from "../lib/words.js";
import { Agent, Badge, Counterparty, Empty, Form, Head, PlainTime, Policy, Said, Table, Tabs, Theirs, timeColumn, Who } from "../lib/parts.js";

const kinds = [["agent_id", "agent"], ["principal", "principal"], ["policy_id", "policy"], ["counterparty", "counterparty"], ["all", "everything"]];

const as = (scope) => ({ admin: asAdmin(scope) });

// useFrozen reads what is frozen now, again and again.
export function useFrozen() {
  const reads = may("freezes:read");
  const { data, reload } = useLoad((signal) => (reads ? get("/v1/freezes", { query: { active: true, limit: 100 }, signal, ...as("freezes:read") }) : null), [reads], reads ? 10000 : 0);
  return { list: data?.data ?? [], more: data?.pagination.has_more, reload };
}

// Scope says what a freeze stops.
function Scope({ of, plain = false }) {
  const [kind, word] = kinds.find(([name]) => of[name] !== undefined);
  const name = exact(of[kind]);
  const shown = { agent_id: html`<${Agent} id=${name} />`, counterparty: html`<${Counterparty} name=${name} />`, policy_id: html`<${Policy} id=${name} />`, principal: html`<${Who} name=${name} />` }[kind];
  return kind === "all" ? word : html`${word} ${(!plain && shown) || html`<${Theirs} text=${name} />`}`;
}

// Frozen is on every page while anything is frozen.
export function Frozen({ frozen: { list, more } }) {
  if (list.length === 0) return null;
  const first = [...list].sort((a, b) => Number(Boolean(b.scope.all)) - Number(Boolean(a.scope.all))).slice(0, 3);
  return html`<aside class="frozen" aria-label="Frozen"><strong>Frozen:</strong> ${first.map((f, i) => html`${i > 0 && ", "}<${Scope} of=${f.scope} />`)}${list.length > 3 && ` and ${list.length - 3}${more ? " or more" : ""} others`}. <a href=${link("freezes")}>Why, and how it ends</a></aside>`;
}

// Freeze leads to the form with what is to be frozen filled in.
export const Freeze = ({ of = {}, children = "Freeze" }) => may("freezes:write") && html`<a class="button" href=${link("freezes", "new", of)}>${children}</a>`;

export function Freezes({ route, frozen }) {
  const [made, setMade] = useState(null);
  const [said, say] = useState("");
  const list = usePages("/v1/freezes", { limit: 100, ...(route.query.show === "all" ? {} : { active: true }) }, as("freezes:read"));
  const again = () => { list.reload(); frozen.reload(); };
  return html`
    <${Head} title="Freezes">${route.part !== "new" && html`<${Freeze} />`}<//>
    ${route.part === "new" && may("freezes:write") && html`<${New} key=${JSON.stringify(route.query)} of=${route.query} done=${(f) => { setMade(f); again(); go(link("freezes"), true); }} />`}
    ${made && html`<div class=${made.reaches?.checks === 0 ? "failure" : "once"} role="status"><p>Frozen: <${Scope} of=${made.scope} />. ${reach(made.reaches)}</p></div>`}
    <${Tabs} label="Which freezes" of=${[["In force", link("freezes"), route.query.show !== "all"], ["All", link("freezes", "", { show: "all" }), route.query.show === "all"]]} />
    <${Table} list=${list} columns=${columns} label="Freezes, the newest first" body=${(f) => html`<${Release} f=${f} done=${(words) => { say(words); again(); }} />`}
      empty=${html`<${Empty} title="Nothing is frozen.">A freeze blocks every check in its scope, and nothing in it is redeemed, until it is released or its time is over.<//>`} />
    <${Said} text=${said} />`;
}

function reach(reaches) {
  if (!reaches) return "How many checks of the last 24 hours are in its scope was not counted in time.";
  if (reaches.checks === 0) return "No check of the last 24 hours is in its scope: is the name right?";
  return `${plural(reaches.checks, "check")} of the last 24 hours, by ${plural(reaches.principals, "principal")}, ${reaches.checks === 1 ? "is" : "are"} in its scope.`;
}

function New({ of, done }) {
  const [kind, setKind] = useState((kinds.find(([name]) => of[name]) ?? kinds[0])[0]);
  const freeze = async ({ name, reason, until }, key) => done(await post("/v1/freezes", { scope: { [kind]: kind === "all" ? true : name }, reason, until: until ?? null, idempotency_key: key }, as("freezes:write")));
  return html`
    <div class="once"><${Form} label="A new freeze" button="Freeze" danger send=${freeze} doing="Freeze again: it counts once." fields=${[
      ["kind", "Freeze", { of: kinds, value: kind, onChange: (e) => setKind(e.currentTarget.value) }],
      ...(kind === "all" ? [] : [["name", "Name", { value: of[kind], required: true }]]),
      ["until", "Until", { type: "datetime-local", hint: "Empty: until it is released." }], ["reason", "Reason", { required: true, maxlength: 4096, wide: true }]]}>
      <p class="hint">${kind === "all" ? "Nothing is allowed and nothing is redeemed, of anybody." : "Freezing an agent stops a fault, freezing a principal stops a thief: an agent chooses its own name."} A plain allow that was answered before cannot be called back. <a href=${link("freezes")}>Cancel</a></p><//></div>`;
}

const columns = [
  ["Frozen", (f) => html`<${Scope} of=${f.scope} plain />`, "what", "minmax(0, 1.6fr)"],
  ["State", (f) => html`<${Badge} of=${f.status === "active" ? "block" : ""}>${f.status === "active" ? "frozen" : f.status}<//>`, "aside", "6rem"],
  ["Reason", (f) => html`<bdi>${f.reason}</bdi>`, "line", "minmax(0, 2fr)"],
  ["By", (f) => (f.created_by ? html`<${Who} of=${f.created_by} />` : "an admin or the system")],
  timeColumn("Since", "created_at"),
  ["Until", (f) => (f.released_at ? html`released <${PlainTime} at=${f.released_at} />` : f.until ? `until ${localTime(f.until, true)}` : "until it is released"), "", "11.5rem"],
];

// Release shows who released a freeze, and releases it.
function Release({ f, done }) {
  const release = async (body) => {
    const now = await post(`/v1/freezes/${segment(f.freeze_id)}/release`, body, as("freezes:release"));
    done(now.missing > 0 && now.status === "active" ? `Released by you; ${plural(now.missing, "person", "people")} more must release it.` : "Released.");
  };
  return html`<p><bdi>${f.reason}</bdi></p>
    ${f.releases.map((r) => html`<p>Released by <${Who} of=${r} />, <${PlainTime} at=${r.at} />: <bdi>${r.note}</bdi></p>`)}
    ${f.status === "active" && may("freezes:release") && html`<${Form} label="Release" send=${release} fields=${[["note", "Why it may go on", { required: true, maxlength: 4096, wide: true }]]}
      button=${asAdmin("freezes:release") ? "Release alone, as the admin, on record" : "Release"} />`}`;
}
