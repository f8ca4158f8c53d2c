// Events: the feed of what happened, the newest first.
import { html } from "../lib/html.js";
import { get, useParts } from "../lib/api.js";
import { print } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { spoken } from "../lib/words.js";
import { Agent, Amount, Empty, Filters, Head, ID, Policy, Table, timeColumn, Who } from "../lib/parts.js";

export const eventTypes = ["violation.recorded", "approval.requested", "approval.decided", "approval.approved", "approval.denied", "approval.reopened", "approval.expired", "approval.withdrawn", "approval.used",
  "outcome.reported", "outcome.release_pending", "outcome.exceeded", "budget.exhausted", "budget.threshold", "policy.created", "policy.forced", "policy.draft_submitted", "policy.draft_approved", "policy.draft_rejected", "key.changed", "key.expiring", "check.redeemed", "check.in_doubt", "check.taken_over", "payment.paid_twice",
  "freeze.created", "freeze.release_approved", "freeze.released", "freeze.forced", "freeze.ended",
  "grant.created", "grant.approved", "grant.revoked"];

const typeWords = (type) => spoken(type).replace(".", " ");
const filters = [["type", "Type", eventTypes], ["from", "From", "day"], ["to", "To", "day"]];
const pieces = [60e3, 600e3, 3600e3, 6 * 3600e3, 86400e3, 7 * 86400e3, 30 * 86400e3];

// The API lists events in their order. The newest come first by pieces of time, each twice to ten times as long as the
// one after it, until one has enough; what it has is turned around.
async function before(end, { type, from }, signal) {
  const first = from ? Date.parse(from) : 0;
  for (const length of pieces) {
    const begin = Math.max(first, end.time - length);
    const found = [];
    let after, more = true;
    while (more && found.length < 2000) {
      const page = await get("/v1/events", { query: { limit: 100, type, ...(after === undefined ? { from: new Date(begin).toISOString() } : { after }) }, signal });
      const old = page.data.filter((e) => Date.parse(e.timestamp) <= end.time && e.sequence < end.sequence);
      found.push(...old);
      more = page.has_more && old.length === page.data.length;
      after = page.next_after;
    }
    const all = begin === first || length === pieces.at(-1);
    if (found.length < 50 && !all) continue;
    found.reverse();
    return { pages: [found], next: found.length > 0 && begin > first && { time: Date.parse(found.at(-1).timestamp), sequence: found.at(-1).sequence }, total: null };
  }
  return { pages: [], next: null, total: null };
}

export function Events({ route }) {
  const query = { type: route.query.type, from: route.query.from, to: route.query.to };
  const list = useParts(["events", query], (end, signal) => before(end ?? { time: query.to ? Date.parse(query.to) : Date.now() + 60e3, sequence: Infinity }, query, signal));
  return html`
    <${Head} title="Events"><button onClick=${list.reload}>Refresh</button><//>
    <${Filters} of=${filters} values=${query} list=${list} change=${(values) => go(link("events", "", values))} />
    <${Table} list=${list} columns=${columns} label="Events" body=${body} empty=${html`<${Empty} title="No events.">What happens appears here: violations, approvals, outcomes, budgets that are used up, changes.<//>`} />`;
}

const columns = [
  ["Type", (e) => typeWords(e.type), "what", "11rem"],
  ["Amount", (e) => { const a = e.data.action ?? e.data; return a.amount !== undefined && a.amount !== null && a.currency && html`<${Amount} value=${a.amount} currency=${a.currency} />`; }, "aside number", "9rem"],
  ["Policy", (e) => e.data.policy_id && html`<${Policy} id=${e.data.policy_id} />`],
  ["Agent", (e) => { const id = e.data.agent_id ?? e.data.action?.agent_id; return id && html`<${Agent} id=${id} />`; }, "", "minmax(0, 1.4fr)"],
  ["By", (e) => { const by = e.data.decision ?? e.data.author ?? e.data.changed_by ?? e.data.created_by; return by?.principal && html`<${Who} of=${by} />`; }, "far", "minmax(0, .8fr)"],
  ["About", (e) => leads(e.data), "", "9rem"],
  ["Number", (e) => String(e.sequence), "number far", "5rem"],
  timeColumn("Time", "timestamp"),
];

// leads are links to what an event is about.
const leads = (data) => [["checks", data.check_id ?? data.used_by_check_id], ["approvals", data.approval_id]].filter(([, id]) => id).map(([page, id]) => html`<a class="name" href=${link(page, id)}><${ID} id=${id} /></a> `);
const body = (e) => html`<p class="leads">${leads(e.data)}</p><pre class="json">${print(e.data)}</pre>`;
