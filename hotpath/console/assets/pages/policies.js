// Policies: versions with author and note, what differs, and a new version.
import { html } from "../lib/html.js";
import { get, segment, useLoad, usePages } from "../lib/api.js";
import { print } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { Awaited, Badge, Empty, Head, Rules, Table, Time, timeColumn, Who } from "../lib/parts.js";
import { differences, lines } from "../lib/diff.js";
import { RulePage } from "./about.js";
import { Change, draftOf } from "./change.js";
import { Freeze } from "./freezes.js";

export function Policies({ route }) {
  if (!route.part && route.query.make) return html`<${Change} key="" route=${route} />`;
  if (route.part && route.rest[0] === "rules") return html`<${RulePage} key=${route.rest[1]} policy=${route.part} id=${route.rest[1]} route=${route} />`;
  if (route.part && (route.rest[0] === "edit" || route.rest[0] === "draft")) return html`<${Change} key=${route.part} id=${route.part} route=${route} />`;
  if (route.part) return html`<${Policy} key=${route.part} id=${route.part} route=${route} />`;
  const list = usePages("/v1/policies", { limit: 100 });
  return html`
    <${Head} title="Policies">${may("policies:write") && html`<a class="button" href=${link("policies", "", { make: 1 })}>New policy</a>`}<//>
    <${Table} list=${list} label="Policies" to=${(p) => link("policies", p.policy_id)} columns=${[
      ["Name", (p) => p.name, "what"], ["Version", (p) => html`<i>version </i>${p.version}`, "aside number", "4rem"], ["Policy", (p) => p.policy_id],
      ["Rules", (p) => html`${p.rules.length}<i> rules</i>`, "number", "4rem"], timeColumn("Changed", "updated_at")]}
      empty=${html`<${Empty} title="No policies.">Make one with New policy, or with <code>spendgate policies apply</code>.<//>`} />`;
}

function Policy({ id, route }) {
  const [version, against] = [route.query.version, route.query.with];
  const read = useLoad(async (signal) => {
    const of = (number) => get(`/v1/policies/${segment(id)}`, { query: { version: number }, signal });
    const shown = await of(version);
    const other = against ?? (shown.version > 1 ? shown.version - 1 : undefined);
    return { shown, before: other !== undefined && Number(other) !== shown.version ? await of(other) : null };
  }, [id, version, against]);
  const { data: draft } = useLoad((signal) => draftOf(id, signal), [id]);
  const list = usePages(`/v1/policies/${segment(id)}/versions`, { limit: 20 });
  if (!read.data) return html`<${Awaited} title=${id} of=${read} />`;
  const { shown: p, before } = read.data;
  const listed = list.pages.flat();
  const others = listed.filter((v) => v.version !== p.version);
  const made = listed.find((v) => v.version === p.version); // with author and note
  const compare = (other) => go(link("policies", id, { version: p.version, with: other }), true);
  return html`
    <${Head} title=${p.name} back=${[link("policies"), "All policies"]}><${Freeze} of=${{ policy_id: id }} />${may("policies:write") && list.total > p.version && html`<a class="button" href=${link("policies", [id, "edit"], { version: p.version })}>Use this version again</a>`}${may("policies:write") && html`<a class="button primary" href=${link("policies", [id, "edit"])}>Edit</a>`}<//>
    <p class="hint">${id}${p.description && ` · ${p.description}`}</p>
    ${draft && html`<p><a class="button" href=${link("policies", [id, "draft"])}>There is a draft${draft.status ? `: ${draft.status}` : ""}</a></p>`}
    <p>${list.total !== null && html`<${Badge} of=${p.version === list.total ? "active" : ""}>${p.version === list.total ? "in force" : `version ${list.total} is in force`}<//> `}Version\u00a0${p.version}${made && html`, by <${By} p=${made} />`}, <${Time} at=${p.updated_at} />${made?.note && html`: <bdi>${made.note}</bdi>`}</p>
    <section><h2>Rules</h2><${Rules} of=${p.rules} policy=${id} /></section>
    ${before && html`<${Difference} from=${before} to=${p} />`}
    ${before && others.length > 1 && html`<label class="field inline filterbar"><span class="label">Compared with</span><select onChange=${(e) => compare(Number(e.currentTarget.value))}>${others.map((v) => html`<option value=${v.version} selected=${v.version === before.version}>version ${v.version}</option>`)}</select></label>`}
    <details class="exactly"><summary>As JSON</summary><pre class="json">${print(bodyOf(p))}</pre></details>
    <section><h2>Versions</h2><${Table} list=${list} label="Versions, the newest first" to=${(v) => link("policies", id, { version: v.version })} columns=${[
      ["Version", (v) => html`version ${v.version}${v.version === list.total && html` <${Badge} of="active">in force<//>`}`, "what", "10rem"], timeColumn("Stored", "updated_at", "", "aside"),
      ["Note", (v) => v.note && html`<bdi>${v.note}</bdi>`, "line"], ["By", (v) => html`<${By} p=${v} />`, "", "minmax(0, 1.4fr)"]]} /></section>`;
}

export const By = ({ p }) => html`${p.author ? html`<${Who} of=${p.author} />` : "spendgate itself"}${p.drafted_by && html`, drafted by <${Who} of=${p.drafted_by} />`}${p.approved_by?.length > 0 && html`, approved by ${p.approved_by.map((a, i) => html`${i > 0 && ", "}<${Who} of=${a} />`)}`}${p.forced && ", forced by an admin"}`;

// bodyOf is what makes a version: all but what the service adds to one or to a draft, so that
// no member is lost by an edit.
export function bodyOf(p) {
  const added = ["version", "created_at", "updated_at", "author", "drafted_by", "approved_by", "forced", "note", "draft_hash", "base_version", "policy_version", "required", "missing", "from", "approvals", "status", "rejection"];
  return Object.fromEntries(Object.entries(p).filter(([name, value]) => value !== null && !added.includes(name)));
}

export function Difference({ from, to, title }) {
  return html`
    <section><h2>${title ?? `What differs from version ${from.version}`}</h2>
      <ul class="rules">${differences(from, to).map((d) => html`<li>${d}</li>`)}</ul>
      <details class="exactly"><summary>In text</summary><pre class="json diff">${lines(print(bodyOf(from)), print(bodyOf(to))).map(([sign, text]) => html`<span class=${sign === "+" ? "added" : sign === "-" ? "removed" : ""}>${sign} ${text}${"\n"}</span>`)}</pre></details>
    </section>`;
}
