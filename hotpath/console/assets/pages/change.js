// A change of a policy on one page: its text with what the service finds wrong at its place, trying, comparing, a backtest,
// storing it, and the draft with its approvals, its report and its promotion.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { call, get, listOf, post, segment, useLoad } from "../lib/api.js";
import { faultsOf, parse, print, syntaxFault } from "../lib/json.js";
import { go, link, useLeaving } from "../lib/route.js";
import { may, session, store, stored } from "../lib/session.js";
import { plural } from "../lib/words.js";
import { Awaited, Badge, Decided, Empty, entries, Failure, Field, Form, Head, Linked, Rules, Sure, Time, useAct, Who } from "../lib/parts.js";
import { Backtest, Begin, changedAs, ended, Flipped, Report, Running } from "./backtests.js";
import { InUse } from "./in-use.js";
import { bodyOf, By, Difference } from "./policies.js";

const blank = { policy_id: "refunds", name: "Refunds", rules: [{ rule_id: "cap", rule_type: "max_amount", description: "No refund over 500 USD", parameters: { limit: 500, currency: "USD" } }] };
const path = (id, more = "") => `/v1/policies/${segment(id)}/draft${more}`;

// draftOf returns the draft of a policy, or null.
export const draftOf = (id, signal) => get(path(id), { signal }).catch((e) => {
  if (e.code === "draft_not_found") return null;
  throw e;
});

// A text is kept in the session of the tab until it is stored, with the version that it changes.
const place = (id) => `spendgate.text.${id ?? ""}`;
const kept = (id) => stored(place(id));
const keep = (id, version, text) => store(place(id), text === null ? null : { version, text });

const self = () => session().key?.principal ?? session().key?.key_id;

export function Change({ id, route }) {
  const { version } = route.query; // which is to be used again
  const loaded = useLoad(async (signal) => {
    if (!id) return { live: blank, base: blank, start: blank };
    const of = (number) => get(`/v1/policies/${segment(id)}`, { query: { version: number }, signal });
    const [live, draft] = await Promise.all([of(), draftOf(id, signal)]);
    const before = kept(id);
    const base = before?.version && before.version !== live.version ? await of(before.version) : live;
    return { live, draft, base, start: version ? await of(version) : (route.rest[0] === "draft" && draft) || live, read: Date.now() };
  }, [id, version]);
  const { data, error, reload } = loaded;
  if (!data) return html`<${Awaited} title="Change" of=${loaded} />`;
  const { live, draft } = data;
  const writes = may("policies:write");
  const form = html`<${Editor} ...${data} id=${id} route=${route} reload=${reload} />`;
  const theirs = draft && route.rest[0] === "draft" && draft.author?.principal !== self(); // who decides about it sees it first
  const shown = draft && html`<${Draft} key=${draft.draft_hash} id=${id} draft=${draft} live=${live} read=${data.read} reload=${reload} route=${route} />`;
  return html`
    <${Head} title=${!id ? "A new policy" : writes ? `Change ${id}` : `Draft of ${id}`} back=${[link("policies", id), id ?? "All policies"]}>${id && html`<button onClick=${reload}>Refresh</button>`}<//>
    <${Failure} error=${error} />
    ${theirs && shown}
    ${writes && (theirs ? html`<details class="new"><summary>Edit it</summary>${form}</details>` : form)}
    ${draft ? !theirs && shown : !writes && html`<${Empty} title="There is no draft.">An author stores one: it decides nothing, and is compared with what is decided from then on.<//>`}`;
}

function Editor({ live, draft, base, start, id, route, reload }) {
  const [before, setBefore] = useState(base); // the version that the text changes
  const own = draft?.author?.principal === self() || start === draft ? draft : undefined;
  const [replaced, setReplaced] = useState(own); // the draft that one stored here replaces: the own one, or one that was read
  useEffect(() => { if (own) setReplaced(own); }, [own?.draft_hash]);
  const [newer, setNewer] = useState(null); // what somebody stored meanwhile
  const written = print(id ? bodyOf(start) : start);
  const [text, setText] = useState(() => kept(id)?.text ?? written);
  const [note, setNote] = useState("");
  const [faults, setFaults] = useState([]);
  const [error, setError] = useState(null);
  const [drop, setDrop] = useState("");
  const [busy, setBusy] = useState(false);
  const area = useRef(null);
  const syntax = syntaxFault(text);
  const shown = syntax ? [syntax] : faults;
  const drafted = draft && text === print(bodyOf(draft));
  const unsaved = text !== written && !drafted;
  useLeaving(unsaved && !busy);
  const write = (now, of = before) => {
    setText(now);
    keep(id, of.version, now);
    setFaults([]);
  };
  const begin = (of) => { // again from a text that is stored
    setBefore(live);
    if (of === draft) setReplaced(draft);
    setText(print(bodyOf(of)));
    keep(id, 0, null);
    setFaults([]);
    setError(null);
  };
  const send = async (request, where) => {
    setBusy(true);
    setError(null);
    setNewer(null);
    setFaults([]);
    try {
      const to = where(await request(note.trim() ? { note: note.trim() } : {}));
      keep(id, 0, null);
      go(to, to.endsWith("/draft"));
      reload();
    } catch (e) {
      if (e.code === "if_match_required" || e.code === "draft_hash_mismatch") setReplaced(await draftOf(id).catch(() => undefined));
      if (e.status === 422) setFaults(faultsOf(e.message, text));
      if (e.code === "policy_version_mismatch") setNewer(await newest(parse(text).policy_id));
      setError(e);
    }
    setBusy(false);
  };
  const storeVersion = () => send((extra) => {
    const policy = parse(text);
    // Under another name, and of a new policy, no version was read: there must be none.
    return post("/v1/policies", print({ ...policy, ...extra, ...(entries(drop).length && { drop_budgets: entries(drop) }) }), { ifMatch: policy.policy_id === id ? before.version : 0 });
  }, (stored) => link("policies", stored.policy_id));
  const putDraft = () => send((extra) => {
    const { policy_id: _, ...body } = parse(text);
    return call("PUT", path(id), { body: print({ ...body, ...extra }), ifMatch: replaced?.draft_hash });
  }, () => link("policies", [id, "draft"]));
  const to = (line) => {
    const at = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(at, text.indexOf("\n", at) < 0 ? text.length : text.indexOf("\n", at));
  };
  const others = error?.code === "if_match_required" || error?.code === "draft_hash_mismatch";
  const still = busy || Boolean(syntax);
  return html`
    ${unsaved && html`<p class="hint">Not stored; this tab keeps it. <button class="plain" onClick=${() => begin(live)}>Start over from version ${live.version ?? "nothing"}</button></p>`}
    ${draft && !drafted && html`<p class="hint">There is a draft, below, with another text. <button class="plain" onClick=${() => begin(draft)}>Edit the draft</button></p>`}
    <div class="editor"><${Lines} text=${text} faults=${shown} area=${area} />
      <textarea ref=${area} class="code" wrap="off" spellcheck="false" autocapitalize="off" aria-label="The policy as JSON" aria-invalid=${shown.length > 0} aria-describedby="faults"
        value=${text} onInput=${(e) => write(e.currentTarget.value)}></textarea></div>
    <div id="faults" role="status">${shown.length > 0 && html`<ul class="faults">${shown.map((f) => html`<li><button class="plain" onClick=${() => to(f.line)}>Line ${f.line}</button> <bdi>${f.text}</bdi></li>`)}</ul>`}</div>
    ${others && replaced && html`<div class="failure" role="alert"><p>Nothing is stored: <${Who} of=${replaced.author} /> stored a draft, <${Time} at=${replaced.created_at} />${replaced.note && html`: <bdi>${replaced.note}</bdi>`}.</p>
      <p>Your text is kept. <button class="plain" onClick=${reload}>Look at that draft</button>, or store yours in its place.</p></div>`}
    <${Failure} error=${newer || (others && replaced) || (error?.status === 422 && faults.length) ? null : error} doing />
    ${newer && html`<${Meanwhile} newer=${newer} before=${newer.policy_id === id ? before : null} over=${() => { setBefore(newer); setNewer(null); write(text, newer); }} />`}
    ${(error?.code === "budget_in_use" || drop) && html`<${Dropped} value=${drop} change=${setDrop} />`}
    <${Field} label="Note: why, for those who read the versions"><input value=${note} maxlength="4096" onInput=${(e) => setNote(e.currentTarget.value)} /><//>
    <p class="buttons">${live.changes && id ? html`<button class="primary" disabled=${still || (drafted && !draft.rejection)} onClick=${putDraft}>${busy ? "Storing…" : "Submit for approval"}</button>`
      : html`<button class="primary" disabled=${still} onClick=${storeVersion}>${busy ? "Storing…" : "Store as the newest version"}</button>
      ${id && html` <button disabled=${still} onClick=${putDraft}>Store as a draft</button>`}`}</p>
    ${!syntax && id && !drafted && html`<${Compared} before=${before} text=${text} id=${id} />`}
    ${!syntax && html`<${TryOut} policy=${() => parse(text)} id=${id} />`}
    ${id && !syntax && html`<${Begin} id=${id} rules=${() => parse(text).rules} begun=${(backtest) => go(link("policies", [id, ...route.rest], { ...route.query, backtest }), true)} />`}
    ${route.query.backtest && html`<${Backtest} key=${route.query.backtest} id=${route.query.backtest} route=${route} within />`}`;
}

// newest returns the version in force, with who made it, or null where that cannot be read.
const newest = (id) => get(`/v1/policies/${segment(id)}/versions`, { query: { limit: 1 } }).then((page) => page.data[0], () => null);

// Meanwhile says what somebody else stored since the text was opened, before the text may replace that.
function Meanwhile({ newer, before, over }) {
  const which = html`version\u00a0${newer.version}, by <${By} p=${newer} />, <${Time} at=${newer.updated_at} />${newer.note && html`: <bdi>${newer.note}</bdi>`}`;
  if (!before) {
    return html`<div class="failure" role="alert"><p>Nothing is stored: there is a policy ${newer.policy_id} already, ${which}.</p>
      <p>Your text is kept. Give it another policy_id, or <a href=${link("policies", newer.policy_id)}>look at that policy</a> and edit it.</p></div>`;
  }
  return html`<div class="failure" role="alert"><p>Nothing is stored: since you opened version\u00a0${before.version}, somebody has stored ${which}.</p>
      <p>Your text is kept. What that version changed is not in it, unless you write it there.</p></div>
    <${Difference} from=${before} to=${newer} title=${`What version ${newer.version} changed`} />
    <p><button onClick=${over}>Continue from version ${newer.version}</button></p>`;
}

// Compared is what the text changes, and what that does to budgets.
function Compared({ before, text, id }) {
  const now = parse(text);
  if (!Array.isArray(now.rules) || now.rules.some((r) => r === null || typeof r !== "object")) return html`<p class="hint">It cannot be compared as it stands.</p>`;
  return html`<${Difference} from=${before} to=${now} title="What changes" /><${InUse} id=${id} before=${before.rules} after=${now.rules} />`;
}

// Lines are the numbers beside the text; those with a fault are marked.
function Lines({ text, faults, area }) {
  const gutter = useRef(null);
  useEffect(() => {
    const follow = () => { gutter.current.scrollTop = area.current.scrollTop; };
    const of = area.current;
    of?.addEventListener("scroll", follow);
    return () => of?.removeEventListener("scroll", follow);
  }, []);
  const marked = new Set(faults.map((f) => f.line));
  return html`<div class="gutter" ref=${gutter} aria-hidden="true">${text.split("\n").map((_, i) => html`<span class=${marked.has(i + 1) ? "faulty" : ""}>${i + 1}</span>`)}</div>`;
}

// TryOut judges an action by the rules as they stand in the editor, without any effect.
function TryOut({ policy, id }) {
  const [result, setResult] = useState(null);
  const judge = async (action) => {
    setResult(null);
    const { policy_id: named, rules } = policy();
    const of = id ?? named;
    setResult((await post("/v1/simulate", print({ policy_id: of, rules, actions: [{ policy_id: of, ...action }] }), { textAmounts: true })).results[0]);
  };
  return html`
    <section><h2>Try an action</h2><p class="hint">Judged by the rules above as they are, with no effect.</p>
      <${Form} button="Try it" plain doing=${false} send=${judge} fields=${[
        ["agent_id", "Agent", { value: "support-bot", required: true }], ["action_type", "Type", { of: ["refund", "credit", "discount", "spend"] }], ["amount", "Amount", { inputmode: "decimal", required: true }],
        ["currency", "Currency", { value: "USD", maxlength: 3, required: true }], ["counterparty", "Counterparty", { value: "customer-1", required: true }]]} />
      ${result && html`<div role="status"><p><${Badge} of=${result.decision} /> <${Linked} text=${result.message} /></p>${result.violated_rule_id && html`<p class="hint"><code>${result.violated_rule_id}</code> ${result.violated_rule_description}</p>`}</div>`}
    </section>`;
}

// Draft is what waits to become a version: what differs, who approved it, and what it would have decided since it was put.
function Draft({ id, draft, live, read: since, reload, route }) {
  const [done, setDone] = useState(true);
  const { data: report } = useLoad(async (signal) => {
    const read = may("checks:read") ? await get(path(id, "/report"), { signal }).catch(() => null) : null;
    setDone(!read || ended(read.status));
    return read;
  }, [draft.draft_hash, since], done ? 0 : 1000);
  const { change } = route.query;
  return html`
    <h2 class="part">The draft${draft.status && html` <${Badge} of=${draft.rejection ? "denied" : "pending"}>${draft.status}<//>`}</h2>
    <p>By <${Who} of=${draft.author} />, <${Time} at=${draft.created_at} />${draft.note && html`: <bdi>${draft.note}</bdi>`}</p>
    <p class="hint">It decides nothing.${report && " The report tells what it would have decided since it was stored."}</p>
    ${!may("policies:write") && html`<section><h2>Rules</h2><${Rules} of=${draft.rules} policy=${id} /></section>`}
    <${Difference} from=${live} to=${draft} title=${`What differs from version ${live.version}, which is in force`} />
    ${!may("policies:write") && html`<${InUse} id=${id} before=${live.rules} after=${draft.rules} />`}
    ${draft.policy_version && html`<${Approvals} id=${id} draft=${draft} reload=${reload} />`}
    ${may("policies:write") && html`<${End} id=${id} draft=${draft} live=${live} ended=${() => { keep(id, 0, null); go(link("policies", id)); }} />`}
    ${report && html`<${Running} of=${report} />`}
    ${report?.report && html`<${Report} report=${report.report} policy=${id} route=${route} /><section><h2>Decisions that would change, the newest first</h2><${Flipped} list=${listOf(report.flips.filter(changedAs(change)), change ? { partial: report.flips.length < report.report.flips.total } : { total: report.report.flips.total })} change=${change} /></section>`}`;
}

const Dropped = ({ value, change, label = "Budgets that end though they are in use", hint = "Their rule_ids, separated by commas. What was used of them is counted no longer." }) => html`
  <${Field} label=${label} hint=${hint}><input value=${value} onInput=${(e) => change(e.currentTarget.value)} /><//>`;

// Approvals shows who has approved the draft, where the version in force asks people, and
// approves exactly the draft that is shown.
function Approvals({ id, draft, reload }) {
  const { act, failure } = useAct();
  const [note, setNote] = useState("");
  const [drop, setDrop] = useState("");
  const decide = (verb, more) => act(() => post(path(id, verb), { draft_hash: draft.draft_hash, ...(note.trim() && { note: note.trim() }), ...more }).then(reload));
  const groups = draft.from?.filter((g) => g.missing > 0).map((g) => `${g.missing} of ${g.group}`) ?? [];
  const { rejection } = draft;
  return html`
    <section><h2>Approvals</h2>
      <${Decided} of=${draft.approvals} said=${(a) => `${a.counts ? "" : ", does not count"}${a.drop_budgets?.length > 0 ? `, budgets that may end: ${a.drop_budgets.join(", ")}` : ""}`} />
      <p class="hint">Version ${draft.policy_version}, which is in force, asks ${plural(draft.required, "person", "people")} other than the author. ${rejection ? "It was rejected: no approval counts until it is stored again." : draft.missing > 0 ? `Missing: ${draft.missing}${groups.length > 0 ? ` (${groups.join(", ")})` : ""}.` : "Nobody is missing."}</p>
      ${rejection && html`<div class="failure"><p>Rejected by <${Who} of=${rejection} />, <${Time} at=${rejection.at} />${rejection.note && html`: <bdi>${rejection.note}</bdi>`}</p></div>`}
      ${may("approvals:decide") && !rejection && html`<${Field} label="Note, for the record"><input value=${note} maxlength="4096" onInput=${(e) => setNote(e.currentTarget.value)} /><//>
        <${Dropped} value=${drop} change=${setDrop} label="Budgets that may end though they are in use" hint="Their rule_ids, separated by commas; usually none." />
        <div class="buttons"><button class="deny" onClick=${() => decide("/reject")}>Reject it</button> <button class="primary" onClick=${() => decide("/approve", entries(drop).length && { drop_budgets: entries(drop) })}>Approve exactly this draft</button></div>`}
      <${Failure} error=${failure} doing /></section>`;
}

// End promotes the draft, or deletes it.
function End({ id, draft, live, ended: gone }) {
  const { act, failure } = useAct();
  const [drop, setDrop] = useState("");
  const dropped = entries(drop);
  const promote = () => act(() => post(path(id, "/promote"), { draft_hash: draft.draft_hash, ...(dropped.length && { drop_budgets: dropped }) }, { ifMatch: live.version }).then(gone));
  return html`
    <section><h2>Decide</h2>
      <p class="hint">Promoted, it decides from then on, as version ${live.version + 1}. ${live.version !== draft.base_version && `It was stored when version ${draft.base_version} was in force.`}</p>
      ${(failure?.code === "budget_in_use" || drop) && html`<${Dropped} value=${drop} change=${setDrop} />`}
      <div class="buttons"><button class="primary" onClick=${promote}>Promote it to version ${live.version + 1}</button>
        <${Sure} yes="Yes, delete it" act=${() => act(() => call("DELETE", path(id), { ifMatch: draft.draft_hash }).then(gone))}>Delete the draft<//></div>
      <${Failure} error=${failure} doing /></section>`;
}
