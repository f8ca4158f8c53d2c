// Approvals: what waits for who is signed in, and all others.
import { html, useEffect, useState } from "../lib/html.js";
import { get, listOf, nodeTime, useLoad, usePages } from "../lib/api.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { span } from "../lib/words.js";
import { Agent, Amount, Badge, Counterparty, Empty, Failure, Filters, Head, Loading, PlainTime, Policy, Said, Table, Tabs, Who, wide } from "../lib/parts.js";
import { Approval, missingOf } from "./approval.js";
import { Freeze } from "./freezes.js";
import { Added } from "./grants.js";

const filters = [
  ["status", "State", ["pending", "approved", "denied", "expired", "used"]], ["counterparty", "Counterparty"], ["agent_id", "Agent"], ["policy_id", "Policy"],
  ["amount_from", "Amount from"], ["amount_to", "Amount to"], ["from", "From", "day"], ["to", "To", "day"], ["decided_by", "Decided by"],
];

export function Approvals({ route, waiting }) {
  const decides = may("approvals:decide");
  const all = !decides || route.query.show === "all";
  const [said, say] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => say(""), 8000);
    return () => clearTimeout(timer);
  }, [said]);
  const [followed, follow] = useState(false); // the approval that is shown came after a decision
  const queue = all ? [] : (waiting.list ?? []).filter((a) => a.kind === "approval");
  const chosen = route.part || (!all && wide() ? queue[0]?.approval_id : "");
  // The next one takes the place of the one that was decided.
  const decided = (id, words) => {
    say(words);
    follow(true);
    const at = queue.findIndex((a) => a.approval_id === id);
    const next = queue[at + 1] ?? queue.find((a) => a.approval_id !== id);
    go(link("approvals", next?.approval_id, route.query), true);
    waiting.reload();
  };
  return html`
    <div class=${`inbox ${route.part ? "one" : "many"} ${all ? "all" : ""}`}>
      ${!(all && chosen) && html`<section class="queue" aria-label="List">
        <${Head} title="Approvals"><${Freeze} /><//>
        ${decides && html`<${Tabs} label="Which" of=${[["Waiting for you", link("approvals"), !all], ["All", link("approvals", "", { show: "all" }), all]]} />`}
        ${all ? html`<${All} route=${route} />` : html`<${Queue} waiting=${waiting} chosen=${chosen} />`}
      </section>`}
      <section class="chosen" aria-label="The approval">
        ${chosen ? html`<${Approval} key=${chosen} id=${chosen} back=${link("approvals", "", route.query)} decides=${() => say("")} decided=${decided} takesFocus=${followed}
            position=${positionOf(queue, chosen)} />` : null}
      </section>
      <${Said} text=${said} />
    </div>`;
}

function positionOf(queue, id) {
  const at = queue.findIndex((a) => a.approval_id === id);
  return at < 0 || queue.length < 2 ? "" : `${at + 1} of ${queue.length}`;
}

function Queue({ waiting, chosen }) {
  if (!waiting.list) return waiting.error ? html`<${Failure} error=${waiting.error} retry=${waiting.reload} />` : html`<${Loading} />`;
  return html`
    <${Failure} error=${waiting.error} retry=${waiting.reload} />
    ${waiting.list.length === 0 ? html`<${Empty} title="Nothing waits for you.">When a rule asks for an approval that yours would bring forward, or somebody submits a draft of a policy, it appears here by itself. Rules ask with the parameter <code>approval</code>: <a href=${link("policies")}>the policies</a>.<//>`
      : html`<${Table} cards list=${listOf(waiting.list, { partial: waiting.more })} label="Waiting for you, soonest to expire first" columns=${columns} to=${addressOf} current=${chosen && link("approvals", chosen)} />`}
    ${waiting.more && html`<p class="hint">There are more; they come as you decide.</p>`}`;
}

const addressOf = (a) => (a.kind === "grant" ? link("grants", a.grant_id) : a.kind === "draft" ? link("policies", [a.policy_id, "draft"]) : link("approvals", a.approval_id));

function State({ a }) {
  const left = Date.parse(a.expires_at) - nodeTime();
  return a.status !== "pending" ? html`<${Badge} of=${a.status} />` : html`<span class=${left < 600000 ? "soon" : ""}>${left > 0 ? `${span(left)} left` : "expired"}</span>`;
}

// The columns of approvals, and of drafts of policies and grants among them.
const columns = [
  ["Amount", (a) => (a.action ? html`<${Amount} value=${a.action.amount} currency=${a.action.currency} />` : a.kind === "grant" ? html`<${Added} g=${a} />` : `Change of ${a.policy_id}`), "what number", "8.6rem"],
  ["State", (a) => (a.kind === "approval" || a.action ? html`<${State} a=${a} />` : html`<${Badge} of="pending">${a.kind}<//>`), "aside", "7.4rem"],
  ["Type", (a) => (a.kind === "grant" ? `for ${a.rule_id} of ${a.policy_id}` : a.action?.action_type), "line far", "4.2rem"],
  ["Counterparty", (a) => (a.action ? html`<i>to </i><${Counterparty} name=${a.action.counterparty} />` : a.note && html`${a.kind === "grant" && "· "}<bdi>${a.note}</bdi>`), "line", "minmax(0, 1.2fr)"],
  ["Agent", (a) => (a.action ? html`<${Agent} id=${a.action.agent_id} />` : (a.author ?? a.created_by) && html`<${Who} of=${a.author ?? a.created_by} />`), "", "minmax(0, 1.2fr)"],
  ["Policy", (a) => a.action && html`<${Policy} id=${a.policy_id} version=${a.policy_version} />`],
  ["Decided by", (a) => a.decisions?.map((d, i) => html`${i > 0 && ", "}<${Who} of=${d} />`), "far"],
  ["Asked", (a) => html`<${PlainTime} at=${a.created_at ?? a.made_at} />`, "", "7.4rem"],
  ["Missing", (a) => { const n = a.kind === "draft" || a.kind === "grant" ? a.missing : a.status === "pending" && a.required > 1 && missingOf(a); return n && html`${n}<i> ${n === 1 ? "approval" : "approvals"} missing</i>`; }, "", "3.8rem"],
];

export const ApprovalTable = (props) => html`<${Table} columns=${columns} to=${(a) => link("approvals", a.approval_id, { show: "all" })} label="Approvals, the newest first" ...${props} />`;

function All({ route }) {
  const { show, ...query } = route.query;
  const list = usePages("/v1/approvals", { ...query, limit: 100 });
  return html`
    <${Filters} of=${filters} values=${query} keep=${{ show: "all" }} list=${list} change=${(values) => go(link("approvals", "", values))} />
    <${ApprovalTable} list=${list} to=${(a) => link("approvals", a.approval_id, route.query)}
      empty=${html`<${Empty} title="No approvals.">${Object.keys(query).length ? "None is as the filters say." : html`A rule with the parameter <code>approval</code> asks people about what it escalates. <a href=${link("policies")}>Write one in a policy</a>.`}<//>`} />`;
}

// useWaiting reads what waits, approvals that expire soonest first and then drafts, every few seconds. Pages may be
// short while there are more: a few are read.
export function useWaiting(decides) {
  const { data, error, loading, reload } = useLoad(async (signal) => {
    if (!decides) return { list: [], more: false };
    const list = [];
    let cursor, more = true;
    for (let page = 0; page < 3 && more; page++) {
      const read = await get("/v1/approvals", { query: { waiting_for: "me", limit: 100, cursor }, signal });
      list.push(...read.data);
      ({ next_cursor: cursor, has_more: more } = read.pagination);
    }
    return { list, more };
  }, [decides], decides ? 5000 : 0);
  return { list: data?.list, more: data?.more, count: data?.list.length ?? 0, error, loading, reload };
}
