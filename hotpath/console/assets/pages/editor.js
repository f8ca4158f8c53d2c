// A new version of a policy: its text, what the service finds wrong with it, at its place.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { get, post, segment } from "../lib/api.js";
import { faultsOf, parse, print, syntaxFault } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { useLoad } from "../lib/load.js";
import { differences } from "../lib/diff.js";
import { Badge, Failure, Field, Head, Linked, Loading, Time, Who } from "../lib/parts.js";
import { Begin } from "./backtests.js";
import { draftOf, putDraft } from "./draft.js";
import { InUse } from "./in-use.js";
import { bodyOf, By, Difference } from "./policies.js";

const blank = { policy_id: "refunds", name: "Refunds", rules: [{ rule_id: "cap", rule_type: "max_amount", description: "No refund over 500 USD", parameters: { limit: 500, currency: "USD" } }] };

// A text is kept in the session of the tab until it is stored, for the version or the draft that it was made of.
const place = (id) => `spendgate.text.${id ?? ""}`;
function kept(id, of) {
  try {
    const found = JSON.parse(sessionStorage.getItem(place(id)));
    return found?.of === of ? found.text : null;
  } catch {
    return null;
  }
}
function keep(id, of, text) {
  try {
    if (text === null) sessionStorage.removeItem(place(id));
    else sessionStorage.setItem(place(id), JSON.stringify({ of, text }));
  } catch { /* then a reload forgets it */ }
}

export function Editor({ id, ofDraft }) {
  const { data, error, reload } = useLoad(async (signal) => {
    if (!id) return { live: blank };
    const [live, draft] = await Promise.all([get(`/v1/policies/${segment(id)}`, { signal }), ofDraft && draftOf(id, signal)]);
    return { live, draft: draft || undefined };
  }, [id, ofDraft]);
  if (!data) return html`<${Head} title="Edit" />${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}`;
  return html`<${Form} opened=${data.live} draft=${data.draft} id=${id} />`;
}

function Form({ opened, draft: drafted, id }) {
  const [before, setBefore] = useState(opened); // the version that the text changes
  const [replaced, setReplaced] = useState(drafted); // the draft that one stored here replaces, if it is another author's
  const of = drafted?.draft_hash ?? opened.version ?? 0;
  const [newer, setNewer] = useState(null); // what somebody stored meanwhile
  const [text, setText] = useState(() => kept(id, of) ?? print(id ? bodyOf(drafted ?? before) : before));
  const [note, setNote] = useState("");
  const [faults, setFaults] = useState([]);
  const [error, setError] = useState(null);
  const [drop, setDrop] = useState("");
  const [busy, setBusy] = useState(false);
  const area = useRef(null);
  const syntax = syntaxFault(text);
  const shown = syntax ? [syntax] : faults;
  const send = async (request, where) => {
    setBusy(true);
    setError(null);
    setNewer(null);
    setFaults([]);
    try {
      const to = where(await request(note.trim() ? { note: note.trim() } : {}));
      keep(id, of, null);
      go(to);
    } catch (e) {
      if (e.code === "if_match_required") setReplaced(await draftOf(id).catch(() => undefined));
      if (e.status === 422) setFaults(faultsOf(e.message, text));
      if (e.code === "policy_version_mismatch") setNewer(await newest(parse(text).policy_id));
      setError(e);
      setBusy(false);
    }
  };
  const store = () => send((extra) => {
    const dropped = drop.split(",").map((s) => s.trim()).filter(Boolean);
    const policy = parse(text);
    // Under another name, and of a new policy, no version was read: there must be none.
    const replaced = policy.policy_id === id ? before.version : 0;
    return post("/v1/policies", print({ ...policy, ...extra, ...(dropped.length && { drop_budgets: dropped }) }), { ifMatch: replaced });
  }, (stored) => link("policies", stored.policy_id));
  const draft = () => send((extra) => {
    const { policy_id: _, ...body } = parse(text);
    return putDraft(id, print({ ...body, ...extra }), replaced);
  }, () => link("policies", [id, "draft"]));
  const to = (line) => {
    const begin = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(begin, text.indexOf("\n", begin) < 0 ? text.length : text.indexOf("\n", begin));
  };
  return html`
    <p class="crumbs"><a class="back" href=${link("policies", id)}>${id ?? "All policies"}</a></p>
    <${Head} title=${id ? `A new version of ${id}` : "A new policy"} />
    <div class="editor"><${Lines} text=${text} faults=${shown} area=${area} />
      <textarea ref=${area} class="code" wrap="off" spellcheck="false" autocapitalize="off" aria-label="The policy as JSON" aria-invalid=${shown.length > 0} aria-describedby="faults"
        value=${text} onInput=${(e) => { setText(e.currentTarget.value); keep(id, of, e.currentTarget.value); setFaults([]); }}></textarea></div>
    <div id="faults" role="status">${shown.length > 0 && html`<ul class="faults">${shown.map((f) => html`<li><button class="plain" onClick=${() => to(f.line)}>Line ${f.line}</button> <bdi>${f.text}</bdi></li>`)}</ul>`}</div>
    ${error?.code === "if_match_required" && replaced && html`<div class="failure" role="alert"><p>Nothing is stored: <${Who} name=${replaced.author?.principal ?? "an admin"} /> stored a draft, <${Time} at=${replaced.created_at} />${replaced.note && html`: <bdi>${replaced.note}</bdi>`}.</p>
      <p>Your text is kept. <a href=${link("policies", [id, "draft"])}>Look at that draft</a>, or store yours in its place.</p></div>`}
    <${Failure} error=${newer || error?.code === "if_match_required" || (error?.status === 422 && faults.length) ? null : error} doing />
    ${newer && html`<${Meanwhile} newer=${newer} before=${newer.policy_id === id ? before : null} over=${() => { setBefore(newer); setNewer(null); }} />`}
    ${(error?.code === "budget_in_use" || drop) && html`<${Field} label="Budgets that end though they are in use" hint="Their rule_ids, with commas between them. What was used of them is counted no longer."><input value=${drop} onInput=${(e) => setDrop(e.currentTarget.value)} /><//>`}
    ${!syntax && id && html`<section><h2>What changes</h2><ul class="rules">${changed(before, text).map((d) => html`<li>${d}</li>`)}</ul></section><${InUse} id=${id} before=${before.rules} after=${rulesIn(text)} />`}
    <${Field} label="Note: why, for those who read the versions"><input value=${note} maxlength="4096" onInput=${(e) => setNote(e.currentTarget.value)} /><//>
    <p class="buttons">${before.changes && id ? html`<button class="primary" disabled=${busy || Boolean(syntax)} onClick=${draft}>${busy ? "Storing…" : "Submit for approval"}</button>`
      : html`<button class="primary" disabled=${busy || Boolean(syntax)} onClick=${store}>${busy ? "Storing…" : "Store as the newest version"}</button>
      ${id && html` <button disabled=${busy || Boolean(syntax)} onClick=${draft}>Store as a draft</button>`}`}</p>
    ${id && !syntax && html`<${Begin} id=${id} rules=${() => parse(text).rules} />`}
    ${!syntax && html`<${TryOut} policy=${() => parse(text)} id=${id} />`}`;
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
    <p><button onClick=${over}>Go on from version ${newer.version}</button></p>`;
}

function changed(before, text) {
  try {
    return differences(before, parse(text));
  } catch {
    return ["It cannot be compared as it stands."];
  }
}

function rulesIn(text) {
  try {
    return parse(text).rules;
  } catch {
    return [];
  }
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
  const [error, setError] = useState(null);
  const submit = async (e) => {
    e.preventDefault();
    const action = Object.fromEntries([...new FormData(e.currentTarget)].filter(([, v]) => v !== ""));
    try {
      setError(null);
      const { policy_id: named, rules } = policy();
      const of = id ?? named;
      setResult((await post("/v1/simulate", print({ policy_id: of, rules, actions: [{ policy_id: of, ...action }] }), { textAmounts: true })).results[0]);
    } catch (failure) {
      setError(failure);
      setResult(null);
    }
  };
  return html`
    <section><h2>Try an action</h2><p class="hint">Judged by the rules above as they are, with no effect.</p>
      <form class="try" onSubmit=${submit}>
        <${Field} label="Agent"><input name="agent_id" value="support-bot" required /><//>
        <${Field} label="Type"><select name="action_type"><option>refund</option><option>credit</option><option>discount</option><option>spend</option></select><//>
        <${Field} label="Amount"><input name="amount" inputmode="decimal" required /><//>
        <${Field} label="Currency"><input name="currency" value="USD" maxlength="3" required /><//>
        <${Field} label="Counterparty"><input name="counterparty" value="customer-1" required /><//>
        <div class="buttons"><button>Try it</button></div>
      </form>
      <${Failure} error=${error} />
      ${result && html`<div role="status"><p><${Badge} of=${result.decision} /> <${Linked} text=${result.message} /></p>${result.violated_rule_id && html`<p class="hint"><code>${result.violated_rule_id}</code> ${result.violated_rule_description}</p>`}</div>`}
    </section>`;
}
