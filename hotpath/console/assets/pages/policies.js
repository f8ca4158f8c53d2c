// Policies: versions with author and note, what differs, and a new version.
import { html, useState } from "../lib/html.js";
import { get, segment } from "../lib/api.js";
import { print } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { useLoad, usePages } from "../lib/load.js";
import { plural, ruleWords } from "../lib/words.js";
import { differences, lines } from "../lib/diff.js";
import { Empty, Failure, Head, Loading, Pages, PlainTime, Time, Who } from "../lib/parts.js";
import { Draft, draftOf } from "./draft.js";
import { Editor } from "./editor.js";

export function Policies({ route }) {
  if (!route.part && route.query.make) return html`<${Editor} />`;
  if (route.part && route.rest[0] === "edit") return html`<${Editor} key=${route.part} id=${route.part} />`;
  if (route.part && route.rest[0] === "draft") return html`<${Draft} key=${route.part} id=${route.part} />`;
  if (route.part) return html`<${Policy} key=${route.part} id=${route.part} route=${route} />`;
  const list = usePages("/v1/policies", { limit: 100 });
  return html`
    <${Head} title="Policies">${may("policies:write") && html`<a class="button" href=${link("policies", "", { make: 1 })}>New policy</a>`}<//>
    <${Pages} list=${list} label="Policies" row=${(p) => html`<li key=${p.policy_id}><a class="row" href=${link("policies", p.policy_id)}>
      <span class="what">${p.name}</span><span class="side-note">version ${p.version}</span>
      <span class="by">${p.policy_id} · ${plural(p.rules.length, "rule")} · <${PlainTime} at=${p.updated_at} /></span></a></li>`}
      empty=${html`<${Empty} title="No policies.">Make one with New policy, or with <code>spendgate policies apply</code>.<//>`} />`;
}

function Policy({ id, route }) {
  const { data, error, reload } = useLoad((signal) => get(`/v1/policies/${segment(id)}/versions`, { query: { limit: 50 }, signal }), [id]);
  const { data: draft } = useLoad((signal) => draftOf(id, signal), [id]);
  const [shown, show] = useState(null);
  const [beside, compare] = useState(null);
  if (!data) return html`<${Head} title=${id} />${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}`;
  const versions = data.data;
  const number = shown ?? Number(route.query.version ?? versions[0].version);
  const at = Math.max(0, versions.findIndex((v) => v.version === number));
  const p = versions[at];
  const before = versions.find((v) => v.version === beside && v !== p) ?? versions[at + 1];
  return html`
    <p class="crumbs"><a class="back" href=${link("policies")}>All policies</a></p>
    <${Head} title=${p.name}>${may("policies:write") && html`<a class="button primary" href=${link("policies", [id, "edit"])}>Edit</a>`}<//>
    <p class="hint">${id}${p.description && ` · ${p.description}`}</p>
    ${draft && html`<p><a class="button" href=${link("policies", [id, "draft"])}>A draft judges beside it</a></p>`}
    <div class="buttons"><${Choice} label="Version" of=${versions} value=${p} change=${show} />
      ${before && html`<${Choice} label="Compared with" of=${versions.filter((v) => v !== p)} value=${before} change=${compare} />`}</div>
    <p>By ${p.author ? html`<${Who} name=${p.author.principal} />` : "spendgate itself"}${p.drafted_by && html`, drafted by <${Who} name=${p.drafted_by.principal} />`}, <${Time} at=${p.updated_at} />${p.note && html`: <bdi>${p.note}</bdi>`}</p>
    <section><h2>Rules</h2><ul class="rules">${p.rules.map((r) => html`<li><code>${r.rule_id}</code> <span>${r.description}</span><span class="hint">${ruleWords(r)}</span></li>`)}</ul></section>
    ${before && html`<${Difference} from=${before} to=${p} />`}
    <details class="exactly"><summary>As the API has it</summary><pre class="json">${print(bodyOf(p))}</pre></details>
    ${data.pagination.has_more && html`<p class="hint">Older versions: <code>spendgate policies versions ${id}</code>.</p>`}`;
}

// bodyOf is what makes a version: all but what the service adds to one or to a draft, so that
// no member is lost by an edit.
export function bodyOf(p) {
  const added = ["version", "created_at", "updated_at", "author", "drafted_by", "note", "draft_hash", "base_version", "policy_version", "required", "missing", "from", "approvals"];
  return Object.fromEntries(Object.entries(p).filter(([name, value]) => value !== null && !added.includes(name)));
}

function Choice({ label, of, value, change }) {
  return html`<label class="field inline filterbar"><span class="label">${label}</span><select onChange=${(e) => change(Number(e.currentTarget.value))}>
    ${of.map((v) => html`<option value=${v.version} selected=${v === value}>${v.version}</option>`)}</select></label>`;
}

export function Difference({ from, to, title }) {
  return html`
    <section><h2>${title ?? `What differs from version ${from.version}`}</h2>
      <ul class="rules">${differences(from, to).map((d) => html`<li>${d}</li>`)}</ul>
      <details class="exactly"><summary>In text</summary><pre class="json diff">${lines(print(bodyOf(from)), print(bodyOf(to))).map(([sign, text]) => html`<span class=${sign === "+" ? "added" : sign === "-" ? "removed" : ""}>${sign} ${text}${"\n"}</span>`)}</pre></details>
    </section>`;
}
