// Approvals: what waits for who is signed in, and all others.
import { html, useEffect, useState } from "../lib/html.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { usePages, useNow } from "../lib/load.js";
import { plural, span } from "../lib/words.js";
import { Amount, Badge, Empty, Failure, Head, Loading, Pages, PlainTime, Said, Theirs, Who } from "../lib/parts.js";
import { Freeze } from "./freezes.js";
import { Approval, missingOf } from "./approval.js";

const states = ["pending", "approved", "denied", "expired", "used"];

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
  const chosen = route.part || (wide() ? queue[0]?.approval_id : "");
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
    <div class=${`inbox ${route.part ? "one" : "many"}`}>
      <section class="queue" aria-label="List">
        <${Head} title="Approvals"><${Freeze} /><//>
        ${decides && html`<div class="tabs" role="group" aria-label="Which">
          <a href=${link("approvals")} aria-current=${all ? undefined : "true"}>Waiting for you</a>
          <a href=${link("approvals", "", { show: "all" })} aria-current=${all ? "true" : undefined}>All</a></div>`}
        ${all ? html`<${All} route=${route} />` : html`<${Queue} waiting=${waiting} chosen=${chosen} />`}
      </section>
      <section class="chosen" aria-label="The approval">
        ${chosen ? html`<${Approval} key=${chosen} id=${chosen} back=${link("approvals", "", route.query)} decides=${() => say("")} decided=${decided} takesFocus=${followed}
            position=${positionOf(queue, chosen)} />` : null}
      </section>
      <${Said} text=${said} />
    </div>`;
}

// wide reports whether a list and one of it fit beside each other.
const wide = () => matchMedia("(min-width: 62rem)").matches;

function positionOf(queue, id) {
  const at = queue.findIndex((a) => a.approval_id === id);
  return at < 0 || queue.length < 2 ? "" : `${at + 1} of ${queue.length}`;
}

function Queue({ waiting, chosen }) {
  const now = useNow(5000);
  if (!waiting.list) return waiting.error ? html`<${Failure} error=${waiting.error} retry=${waiting.reload} />` : html`<${Loading} />`;
  return html`
    <${Failure} error=${waiting.error} retry=${waiting.reload} />
    ${waiting.list.length === 0 ? html`<${Empty} title="Nothing waits for you.">When a rule asks for an approval that yours would bring forward, or somebody submits a draft of a policy, it appears here by itself. Rules ask with the parameter <code>approval</code>.<//>`
      : html`<ul class="rows" aria-label="Waiting for you, soonest to expire first">${waiting.list.map((a) => (a.kind === "draft" ? html`<${DraftRow} key=${a.draft_hash} d=${a} />`
        : html`<${Row} key=${a.approval_id} a=${a} now=${now} current=${a.approval_id === chosen} />`))}</ul>`}
    ${waiting.more && html`<p class="hint">There are more; they come as you decide.</p>`}`;
}

// DraftRow is a draft of a policy that waits.
const DraftRow = ({ d }) => html`
  <li><a class="row" href=${link("policies", [d.policy_id, "draft"])}>
    <span class="what">Change of ${d.policy_id}</span><span class="side-note"><${Badge} of="pending">draft<//></span>
    ${d.note && html`<span class="to"><bdi>${d.note}</bdi></span>`}
    <span class="by">${d.author && html`<${Who} name=${d.author.principal} /> · `}<${PlainTime} at=${d.made_at} /> · ${plural(d.missing, "approval")} missing</span></a></li>`;

function Row({ a, now, current, query }) {
  const left = Date.parse(a.expires_at) - now;
  return html`
    <li><a class="row approval" href=${link("approvals", a.approval_id, query)} aria-current=${current ? "true" : undefined}>
      <span class="what"><${Amount} value=${a.action.amount} currency=${a.action.currency} /></span>
      <span class="side-note">${a.status === "pending" ? html`<span class=${left < 600000 ? "soon" : ""}>${left > 0 ? `${span(left)} left` : "expired"}</span>` : html`<${Badge} of=${a.status} />`}</span>
      <span class="to">${a.action.action_type} to <${Theirs} text=${a.action.counterparty} /></span>
      <span class="by"><${Theirs} text=${a.action.agent_id} /> · <${PlainTime} at=${a.created_at} />${a.status === "pending" && a.required > 1 && ` · ${plural(missingOf(a), "approval")} missing`}</span>
    </a></li>`;
}

function All({ route }) {
  const { status, policy_id, agent_id } = route.query;
  const list = usePages("/v1/approvals", { status, policy_id, agent_id, limit: 50 });
  const now = useNow(60000);
  const show = (values) => go(link("approvals", "", { ...route.query, ...values, show: "all" }));
  return html`
    <div class="filterbar">
      <label class="field inline"><span class="label">State</span><select value=${status ?? ""} onChange=${(e) => show({ status: e.currentTarget.value })}>
        <option value="">any</option>${states.map((s) => html`<option>${s}</option>`)}</select></label>
    </div>
    <${Pages} list=${list} label="Approvals, the newest first" row=${(a) => html`<${Row} key=${a.approval_id} a=${a} now=${now} query=${route.query} />`}
      empty=${html`<${Empty} title="No approvals.">A rule with the parameter <code>approval</code> asks people about what it escalates.<//>`} />`;
}
