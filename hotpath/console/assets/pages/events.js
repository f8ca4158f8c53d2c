// Events: the feed of what happened, in its order.
import { html, useEffect, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { print } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { useLoad } from "../lib/load.js";
import { Empty, Failure, Head, ID, Loading, PlainTime, Time } from "../lib/parts.js";

export const eventTypes = ["violation.recorded", "approval.requested", "approval.decided", "approval.approved", "approval.denied", "approval.reopened", "approval.expired", "approval.withdrawn", "approval.used",
  "outcome.reported", "outcome.release_pending", "outcome.exceeded", "budget.exhausted", "budget.threshold", "policy.created", "policy.forced", "policy.draft_submitted", "policy.draft_approved", "policy.draft_rejected", "key.changed", "check.redeemed", "check.in_doubt", "check.taken_over", "payment.paid_twice",
  "freeze.created", "freeze.release_approved", "freeze.released", "freeze.forced", "freeze.ended"];

const lengths = { "1 hour": 3600e3, "1 day": 86400e3, "7 days": 7 * 86400e3 };

export function Events({ route }) {
  const { type, from } = route.query;
  const last = lengths[route.query.last] ? route.query.last : "1 day";
  const show = (values) => go(link("events", "", { type, last, ...values }));
  return html`
    <${Head} title="Events" />
    <div class="filterbar"><label class="field inline"><span class="label">Type</span><select onChange=${(e) => show({ from, type: e.currentTarget.value })}>
      <option value="">any</option>${eventTypes.map((t) => html`<option selected=${t === type}>${t}</option>`)}</select></label>
      <label class="field inline"><span class="label">The last</span><select onChange=${(e) => show({ last: e.currentTarget.value })}>
      ${Object.keys(lengths).map((l) => html`<option selected=${l === last}>${l}</option>`)}</select></label></div>
    <${Feed} key=${`${type}${from}${last}`} type=${type} from=${from} length=${lengths[last]} />`;
}

// Leads are links to what an event is about.
function Leads({ data }) {
  const to = [["checks", data.check_id ?? data.used_by_check_id], ["approvals", data.approval_id]].filter(([, id]) => id);
  return to.length > 0 && html`<p class="leads">${to.map(([page, id]) => html`<a href=${link(page, id)}><${ID} id=${id} /></a> `)}</p>`;
}

function Feed({ type, from, length }) {
  const [state, setState] = useState({ events: [], after: undefined, more: true, error: null, loading: false });
  const [begin] = useState(() => from || new Date(Date.now() - length).toISOString());
  const read = async () => {
    setState((s) => ({ ...s, loading: true, error: null }));
    try {
      const page = await get("/v1/events", { query: { limit: 100, type, ...(state.after === undefined ? { from: begin } : { after: state.after }) } });
      setState((s) => ({ events: [...s.events, ...page.data], after: page.next_after, more: page.has_more, error: null, loading: false }));
    } catch (error) {
      setState((s) => ({ ...s, error, loading: false }));
    }
  };
  useEffect(() => { read(); }, []);
  return html`
    <p class="hint">Since ${html`<${Time} at=${begin} />`}, the oldest first.</p>
    <ul class="rows" aria-label="Events">${state.events.map((e) => html`<li key=${e.id}><details class="event"><summary><span>${e.type}</span> <span class="hint">${e.data.policy_id ?? e.data.key_id ?? ""} · <${PlainTime} at=${e.timestamp} /> · ${e.sequence}</span></summary><${Leads} data=${e.data} /><pre class="json">${print(e.data)}</pre></details></li>`)}</ul>
    ${state.events.length === 0 && !state.loading && !state.error && !state.more && html`<${Empty} title="No events since then.">What happens appears here: violations, approvals, outcomes, budgets that are used up, changes.<//>`}
    <${Failure} error=${state.error} />
    ${state.loading ? html`<${Loading} />` : html`<p class="more"><button onClick=${read}>${state.more ? "Show more" : "Look for newer ones"}</button></p>`}`;
}
