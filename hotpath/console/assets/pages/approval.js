// One approval: what exactly is asked, why, and the decision.
import { html, useCallback, useEffect, useRef, useState } from "../lib/html.js";
import { get, listOf, post, segment, useLoad, useNow } from "../lib/api.js";
import { compare, minus } from "../lib/json.js";
import { link } from "../lib/route.js";
import { may, session } from "../lib/session.js";
import { groupWords, money, plural, ruleWords, span } from "../lib/words.js";
import { Amount, Asked, Awaited, Badge, Counterparty, Decided, Failure, ID, Linked, PlainTime, Rule, Rules, Table, Theirs, Time, Who } from "../lib/parts.js";

// useApproval follows an approval: while it is pending the node holds each request until somebody decides.
function useApproval(id) {
  const wait = useRef(0);
  const [every, setEvery] = useState(2000);
  const { data: approval, error, reload } = useLoad(async (signal) => {
    const read = await get(`/v1/approvals/${segment(id)}`, { wait: wait.current, signal });
    wait.current = read.status === "pending" ? 25 : 0;
    setEvery({ pending: 2000, approved: 5000 }[read.status] ?? 0);
    return read;
  }, [id], every);
  return { approval, error, reload: useCallback(() => { wait.current = 0; reload(); }, []) };
}

export function Approval({ id, back, decides, decided, position, takesFocus }) {
  const { approval, error, reload } = useApproval(id);
  const a = approval;
  const heading = useRef(null);
  useEffect(() => { if (a && takesFocus) heading.current?.focus({ preventScroll: true }); }, [a?.approval_id]);
  // The rules as the version that asked has them.
  const rules = useLoad(async (signal) => (a && may("policies:read")
    ? (await get(`/v1/policies/${segment(a.policy_id)}`, { query: { version: a.policy_version }, signal })).rules : null), [a?.policy_id, a?.policy_version]);
  const newest = useLoad((signal) => (a && may("policies:read") ? get(`/v1/policies/${segment(a.policy_id)}`, { signal }) : null), [a?.policy_id, a?.approval_id]);
  if (!a) return html`<a class="back" href=${back}>All approvals</a><${Awaited} of=${{ error, reload }} />`;
  return html`
    <article class="approval">
      <p class="crumbs"><a class="back" href=${back}>All</a><span class="hint">${position}</span></p>
      <p class="state"><${Badge} of=${a.status} /><${Deadline} a=${a} /></p>
      <h1 class="ask" tabindex="-1" ref=${heading}><${Amount} value=${a.action.amount} currency=${a.action.currency} large /><span class="verb">${a.action.action_type} to <${Counterparty} name=${a.action.counterparty} /></span></h1>
      <${Failure} error=${error} />
      <div class="columns-of">
      <div><${Why} a=${a} rules=${rules.data} error=${rules.error} />
      <${Asked} action=${a.action} by=${a.principal} policy=${a.policy_id} version=${a.policy_version} more=${[["Asked", html`<${Time} at=${a.created_at} />`]]} /></div>
      <div><${Left} a=${a} policy=${newest.data} />
      <${Decisions} a=${a} />
      <${Before} a=${a} /></div></div>
      <details class="exactly"><summary>Exactly what is approved</summary>
        <p class="hint">A decision is bound to this hash: for any other action it is void.</p>
        <code class="hash">${a.action_hash}</code>
        <p><a href=${link("checks", a.check_id)}>The check that asked</a> <${ID} id=${a.check_id} /></p>
      </details>
      <${Decide} a=${a} reload=${reload} decides=${decides} decided=${decided} />
    </article>`;
}

function Deadline({ a }) {
  const now = useNow();
  if (a.status === "approved") return html`<span class="hint">to be used by <${Time} at=${a.use_by} /></span>`;
  if (a.status === "used") return html`<a href=${link("checks", a.used_by_check_id)}>used by this check</a>`;
  if (a.status !== "pending") return null;
  const left = Date.parse(a.expires_at) - now;
  return html`<span class=${left < 600000 ? "hint soon" : "hint"}>${left > 0 ? html`${span(left)} left, until <${Time} at=${a.expires_at} />` : "Its time is over"}</span>`;
}

// Why shows the rules that ask.
function Why({ a, rules: all, error }) {
  const { data: check } = useLoad((signal) => (may("checks:read") ? get(`/v1/checks/${a.check_id}`, { signal }) : null), [a.approval_id]);
  const rules = a.rule_ids.map((id) => all?.find((r) => r.rule_id === id) ?? { rule_id: id });
  const list = (some) => html`<${Rules} of=${some} policy=${a.policy_id} />`;
  const first = rules.length > 4 ? 3 : rules.length; // what is asked, and by whom, stays near
  return html`
    <section><h2>Why you are asked</h2>
      ${check?.message && html`<p><${Linked} text=${check.message} /></p>`}
      ${list(rules.slice(0, first))}
      ${first < rules.length && html`<details><summary>${rules.length - first} more rules ask</summary>${list(rules.slice(first))}</details>`}
      <${Failure} error=${error} />
    </section>`;
}

// Left shows what the budgets of the newest version have left, and whether that is enough. An approval
// lifts the rule that people saw, not one that was changed since.
function Left({ a, policy }) {
  if (!a.remaining?.length) return null;
  const rules = policy?.rules;
  const unless = policy?.version === a.policy_version ? "" : `, unless the rule is another than it was in version ${a.policy_version}`;
  const some = (amount, count) => [amount !== null && html`<${Amount} value=${amount} currency=${a.action.currency} />`, count !== null && plural(count, "action")].filter(Boolean)
    .map((part, i) => html`${i > 0 && " and "}${part}`);
  const open = a.status === "pending" || a.status === "approved";
  return html`
    <section><h2>What budgets have left</h2>
      <ul class="left">${a.remaining.map((r) => {
        const [amount, count] = [r.remaining_after_approved, r.remaining_count_after_approved];
        const rule = rules?.find((of) => of.rule_id === r.rule_id);
        const short = (amount !== null && compare(amount, a.action.amount) < 0) || count === 0;
        const others = compare(amount, r.remaining) !== 0 || count !== r.remaining_count;
        return html`<li><${Rule} policy=${a.policy_id} id=${r.rule_id} />${rule?.description && html` <span>${rule.description}</span>`}
          <p>${some(amount, count)} left${open && !short && html`, <span class="hint">${some(amount === null ? null : minus(amount, a.action.amount), count === null ? null : count - 1)} after this</span>`}</p>
          ${open && short && (a.rule_ids.includes(r.rule_id) ? html`<p class="hint">Less than this takes: an approval lets it pass${unless}.</p>`
            : html`<p class="short">Too little for this: an approval alone does not let it pass while the budget has no more room.</p>`)}
          ${others && html`<p class="hint">Others that are approved and not yet used are counted; without them ${some(r.remaining, r.remaining_count)}.</p>`}
          ${rule && html`<p class="hint">${ruleWords(rule)}</p>`}</li>`;
      })}</ul>
    </section>`;
}

// missingOf tells how many approvals are missing; the answer has it where groups are asked, of whom not everybody counts.
export const missingOf = (a) => a.missing ?? a.required - a.decisions.filter((d) => d.decision === "approve").length;

// missingWords says how many approvals are missing, and of whom.
function missingWords(a) {
  const missing = missingOf(a);
  const groups = a.from?.filter((g) => g.missing > 0) ?? [];
  const anybody = missing - groups.reduce((n, g) => n + g.missing, 0);
  let of = "";
  if (anybody < 0) of = `, of ${groups.map(groupWords).join(" or ")}`; // somebody counts for either
  else if (groups.length > 0) of = `: ${[...groups.map((g) => `${g.missing} of ${groupWords(g)}`), anybody > 0 && `${anybody} of anybody`].filter(Boolean).join(", ")}`;
  return `${plural(missing, "approval")} missing${a.required > 1 ? ` of ${a.required}, from different people` : ""}${of}.${a.exclude_author ? " Who wrote the version does not decide." : ""}`;
}

function Decisions({ a }) {
  return html`
    <section><h2>Decisions</h2>
      ${a.decisions.length > 0 && html`<${Decided} of=${a.decisions} />`}
      <p class="hint">${a.status === "pending" ? missingWords(a) : html`<${Linked} text=${a.next_step} />`}</p>
    </section>`;
}

const lastActions = [ // without links beside the row's: the decision is a few tabs away
  ["Amount", (c) => html`<${Amount} value=${c.action.amount} currency=${c.action.currency} />`, "what"], ["Decision", (c) => html`<${Badge} of=${c.decision} />`, "aside"],
  ["What", (c) => html`${c.action.action_type} to <${Theirs} text=${c.action.counterparty} />`, "line"], ["Time", (c) => html`<${PlainTime} at=${c.timestamp} />`], ["Outcome", (c) => c.outcome?.status],
];

// Before shows what this agent did last.
function Before({ a }) {
  const { data, error } = useLoad(async (signal) => {
    if (!may("checks:read")) return null;
    const page = await get("/v1/checks", { query: { agent_id: a.action.agent_id, limit: 7 }, signal });
    const others = page.data.filter((c) => c.check_id !== a.check_id);
    return listOf(others.slice(0, 6), { partial: page.pagination.has_more || others.length > 6 });
  }, [a.approval_id]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return null;
  return html`
    <section><h2>This agent's last actions</h2>
      <${Table} cards list=${data} columns=${lastActions} to=${(c) => link("checks", c.check_id)} label="This agent's last actions" empty=${html`<p class="hint">It asked for nothing else that you may see.</p>`} />
      <p class="hint"><a href=${link("checks", "", { agent_id: a.action.agent_id })}>All checks of this agent</a></p>
    </section>`;
}

// Decide is the bar with both decisions. It is without effect for a moment after it came:
// a second tap on the one before must not decide this one.
function Decide({ a, reload, decides, decided }) {
  const now = useNow();
  const [armed, setArmed] = useState(false);
  const [busy, setBusy] = useState("");
  const [error, setError] = useState(null);
  const note = useRef(null);
  useEffect(() => {
    const timer = setTimeout(() => setArmed(true), 700);
    return () => clearTimeout(timer);
  }, []);
  const me = session().key?.principal ?? session().key?.key_id;
  if (!may("approvals:decide")) return null;
  if (a.status !== "pending" || Date.parse(a.expires_at) <= now) {
    return error && html`<div class="decide"><p class="outcome" role="alert">${late(a, error)}</p></div>`;
  }
  if (a.decisions.some((d) => d.principal === me)) return html`<div class="decide"><p class="outcome" role="status">You have approved. Others must, too.</p></div>`;
  if (a.principal === me) return html`<div class="decide"><p class="outcome">You asked for this: somebody else decides.</p></div>`;
  const decide = async (verb) => {
    setBusy(verb);
    setError(null);
    decides(); // what was said of the decision before is not about this one
    try {
      const after = await post(`/v1/approvals/${segment(a.approval_id)}/${verb}`, { action_hash: a.action_hash, note: note.current.value.trim() || null });
      const what = money(a.action.amount, a.action.currency);
      decided(a.approval_id, verb === "deny" ? `Denied: ${what}.` : after.status === "pending" ? `You approved ${what}. ${missingOf(after) < missingOf(a) ? "Others must, too." : `It brings nothing forward: ${missingWords(after)}`}` : `Approved: ${what}.`);
    } catch (e) {
      setError(e);
      setBusy("");
      if (e.status === 409) reload();
    }
  };
  const still = !armed || busy !== "";
  return html`
    <div class="decide" role="group" aria-label="Your decision">
      <${Failure} error=${error} doing="Decide the same again: it counts once." />
      <input class="note" ref=${note} maxlength="4096" aria-label="Note, for the record" placeholder="Note, for the record" autocomplete="off" />
      <div class="both">
        <button class="deny" aria-disabled=${still} onClick=${() => still || decide("deny")}>${busy === "deny" ? "Denying…" : "Deny"}</button>
        <button class="approve" aria-disabled=${still} onClick=${() => still || decide("approve")}>${busy === "approve" ? "Approving…" : html`Approve <${Amount} value=${a.action.amount} currency=${a.action.currency} />`}</button>
      </div>
    </div>`;
}

// late says who was faster, or that the time was over.
function late(a, error) {
  const last = a.decisions.at(-1);
  if (a.status === "expired" || !last) return error.message;
  return `Somebody was faster: ${last.principal} ${last.decision === "deny" ? "denied" : "approved"} it. Your decision was not recorded.`;
}
