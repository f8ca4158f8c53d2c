// A draft: what differs from the version in force, and what the draft would have decided since it was put.
import { html, useState } from "../lib/html.js";
import { call, get, post, segment } from "../lib/api.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { listOf, useLoad } from "../lib/load.js";
import { ruleWords } from "../lib/words.js";
import { Empty, Failure, Field, Head, Loading, Time, Who } from "../lib/parts.js";
import { InUse } from "./in-use.js";
import { Difference } from "./policies.js";
import { ended, Flipped, Report, Running } from "./report.js";

const path = (id, more = "") => `/v1/policies/${segment(id)}/draft${more}`;

// draftOf returns the draft of a policy, or null.
export const draftOf = (id, signal) => get(path(id), { signal }).catch((e) => {
  if (e.code === "draft_not_found") return null;
  throw e;
});

// putDraft stores a draft in place of the one that was read; null for none.
export const putDraft = (id, body, replaces) => call("PUT", path(id), { body, ifMatch: replaces?.draft_hash });

export function Draft({ id }) {
  const [done, setDone] = useState(true);
  const { data, error, reload } = useLoad(async (signal) => {
    const report = may("checks:read") ? await get(path(id, "/report"), { signal }).catch(() => null) : null;
    setDone(!report || ended(report.status));
    return { live: await get(`/v1/policies/${segment(id)}`, { signal }), draft: await draftOf(id, signal), report };
  }, [id], done ? 0 : 1000);
  if (!data) return html`<${Head} title="Draft" />${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}`;
  const { live, draft, report } = data;
  const back = html`<p class="crumbs"><a class="back" href=${link("policies", id)}>${id}</a></p>`;
  if (!draft) return html`${back}<${Head} title=${`Draft of ${id}`} /><${Empty} title="There is no draft.">Store one from the policy's editor: it decides nothing, and is compared with what is decided from then on.<//>`;
  return html`
    ${back}
    <${Head} title=${`Draft of ${id}`}><button onClick=${reload}>Refresh</button>${may("policies:write") && html` <a class="button" href=${link("policies", [id, "edit"], { draft: 1 })}>Edit</a>`}<//>
    <p class="hint">It decides nothing.${report && " The report tells what it would have made of the checks since it was put."}</p>
    <p>By ${draft.author ? html`<${Who} name=${draft.author.principal} />` : "an admin"}, <${Time} at=${draft.created_at} />${draft.note && html`: <bdi>${draft.note}</bdi>`}</p>
    <section><h2>Rules</h2><ul class="rules">${draft.rules.map((r) => html`<li><code>${r.rule_id}</code> <span>${r.description}</span><span class="hint">${ruleWords(r)}</span></li>`)}</ul></section>
    <${Difference} from=${live} to=${draft} title=${`What differs from version ${live.version}, which is in force`} />
    <${InUse} id=${id} before=${live.rules} after=${draft.rules} />
    ${draft.policy_version && html`<${Approvals} id=${id} draft=${draft} reload=${reload} />`}
    ${report && html`<${Running} of=${report} />`}
    ${report?.report && html`<${Report} report=${report.report} />`}
    ${may("policies:write") && html`<${End} id=${id} draft=${draft} live=${live} />`}
    ${report?.report && html`<section><h2>Decided otherwise, the newest first</h2><${Flipped} list=${listOf(report.flips, report.report.flips.total)} /></section>`}`;
}

const entries = (text) => text.split(",").map((s) => s.trim()).filter(Boolean);

// Approvals shows who has approved the draft, where the version in force asks people, and
// approves exactly the draft that is shown.
function Approvals({ id, draft, reload }) {
  const [failure, setFailure] = useState(null);
  const [note, setNote] = useState("");
  const [drop, setDrop] = useState("");
  const decide = (verb, more) => async () => {
    try {
      await post(path(id, verb), { draft_hash: draft.draft_hash, ...(note.trim() && { note: note.trim() }), ...more });
      setFailure(null);
      reload();
    } catch (e) {
      setFailure(e);
    }
  };
  const groups = draft.from?.filter((g) => g.missing > 0).map((g) => `${g.missing} of ${g.group}`) ?? [];
  return html`
    <section><h2>Approvals</h2>
      ${draft.approvals.length > 0 && html`<ul class="decisions">${draft.approvals.map((a) => html`<li><bdi title=${a.principal}>${a.name || a.principal}</bdi>${a.email && html` <span class="hint"><bdi>${a.email}</bdi></span>`}${a.groups && html` <span class="hint"><bdi>${a.groups.join(", ")}</bdi></span>`} <span class="hint"><${Time} at=${a.at} />${!a.counts && ", does not count"}${a.drop_budgets?.length > 0 && `, budgets that may end: ${a.drop_budgets.join(", ")}`}</span>${a.note && html`<p><bdi>${a.note}</bdi></p>`}</li>`)}</ul>`}
      <p class="hint">Version ${draft.policy_version}, which is in force, asks ${draft.required} others than the author. ${draft.rejection ? "It was rejected: no approval counts until it is stored again." : draft.missing > 0 ? `Missing: ${draft.missing}${groups.length > 0 ? ` (${groups.join(", ")})` : ""}.` : "Nobody is missing."}</p>
      ${draft.rejection && html`<div class="failure"><p>Rejected by <bdi title=${draft.rejection.principal}>${draft.rejection.name || draft.rejection.principal}</bdi>, <${Time} at=${draft.rejection.at} />${draft.rejection.note && html`: <bdi>${draft.rejection.note}</bdi>`}</p></div>`}
      ${may("approvals:decide") && !draft.rejection && html`<${Field} label="Note for those who read the record"><input value=${note} maxlength="4096" onInput=${(e) => setNote(e.currentTarget.value)} /><//>
        <${Field} label="Budgets that may end though they are in use" hint="Their rule_ids, with commas between them; none as a rule."><input value=${drop} onInput=${(e) => setDrop(e.currentTarget.value)} /><//>
        <div class="buttons"><button class="deny" onClick=${decide("/reject")}>Reject it</button> <button class="primary" onClick=${decide("/approve", entries(drop).length && { drop_budgets: entries(drop) })}>Approve exactly this draft</button></div>`}
      <${Failure} error=${failure} doing /></section>`;
}

// End promotes the draft, or deletes it.
function End({ id, draft, live }) {
  const [failure, setFailure] = useState(null);
  const [drop, setDrop] = useState("");
  const [sure, setSure] = useState(false);
  const act = (request) => async () => {
    try {
      await request();
      go(link("policies", id));
    } catch (e) {
      setFailure(e);
    }
  };
  const dropped = entries(drop);
  const promote = act(() => post(path(id, "/promote"), { draft_hash: draft.draft_hash, ...(dropped.length && { drop_budgets: dropped }) }, { ifMatch: live.version }));
  const end = act(() => call("DELETE", path(id), { ifMatch: draft.draft_hash }));
  return html`
    <section><h2>Decide</h2>
      <p class="hint">Promoted, it decides from then on, as version ${live.version + 1}. ${live.version !== draft.base_version && `It was put when version ${draft.base_version} was in force.`}</p>
      ${(failure?.code === "budget_in_use" || drop) && html`<${Field} label="Budgets that end though they are in use" hint="Their rule_ids, with commas between them. What was used of them is counted no longer."><input value=${drop} onInput=${(e) => setDrop(e.currentTarget.value)} /><//>`}
      <div class="buttons"><button class="primary" onClick=${promote}>Promote it to version ${live.version + 1}</button>
        ${sure ? html`<button onClick=${end}>Yes, delete it</button>` : html`<button onClick=${() => setSure(true)}>Delete the draft</button>`}</div>
      <${Failure} error=${failure} doing /></section>`;
}
