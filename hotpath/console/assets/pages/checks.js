// Checks: all that was asked, or what was blocked or escalated, by filters that are part of the address.
import { html } from "../lib/html.js";
import { get, segment, useLoad, usePages } from "../lib/api.js";
import { print } from "../lib/json.js";
import { go, link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { ruleWords, spoken, took } from "../lib/words.js";
import { Agent, Amount, Asked, Awaited, Badge, Counterparty, Decided, Empty, Facts, Failure, Filters, Head, ID, Linked, Policy, Rule, Table, Tabs, Theirs, Time, timeColumn, Who } from "../lib/parts.js";

export const reasons = ["max_amount_exceeded", "currency_not_covered", "refund_age_limit_exceeded", "blocked_category", "vendor_not_on_allowlist",
  "blocked_payment_rail", "discount_cap_exceeded", "blocked_geography", "time_restriction_violated", "duplicate_action_detected",
  "escalation_threshold_exceeded", "required_context_missing", "budget_exceeded", "count_limit_exceeded", "condition_met", "frozen"];

const shared = [["agent_id", "Agent"], ["policy_id", "Policy"], ["amount_from", "Amount from"], ["amount_to", "Amount to"], ["from", "From", "day"], ["to", "To", "day"]];
const type = ["action_type", "Type", ["refund", "credit", "discount", "spend"]];
const ofChecks = [
  ["decision", "Decision", ["allow", "block", "escalate"]],
  ["outcome", "Outcome", ["none", "executed", "failed", "voided", "in_doubt"]],
  type, ["reason_code", "Reason", reasons], ["rule_id", "Rule"], ["counterparty", "Counterparty"],
  ...shared, ["principal", "Asked by"], ["idempotency_key", "Idempotency key"], ["payment_key", "Payment key"], ["approval_id", "Approval"],
];
const ofViolations = [["decision", "Decision", ["block", "escalate"]], type, ...shared];

const columns = [
  ["Amount", (c) => html`<${Amount} value=${c.action.amount} currency=${c.action.currency} />`, "what number", "8.6rem"],
  ["Decision", (c) => html`<${Badge} of=${c.decision} />${c.outcome && html` <${Badge} of=${c.outcome.status} />`}`, "aside", "7.4rem"],
  ["Type", (c) => c.action.action_type, "line far", "4.2rem"],
  ["Counterparty", (c) => html`<i>to </i><${Counterparty} name=${c.action.counterparty} />`, "line", "minmax(0, 1.2fr)"],
  ["Agent", (c) => html`<${Agent} id=${c.action.agent_id} />`, "", "minmax(0, 1.2fr)"],
  ["Policy", (c) => html`<${Policy} id=${c.action.policy_id} />`],
  ["Rule", (c) => html`<${Rule} policy=${c.action.policy_id} id=${c.violated_rule_id} />`, "", "minmax(0, .9fr)"],
  timeColumn("Time", "timestamp"),
];

// CheckTable shows checks; violations have the action's members beside the others.
export const CheckTable = (props) => html`<${Table} columns=${columns} to=${(c) => link("checks", c.check_id)} ...${props} />`;
const checkOf = (v) => ({ ...v, action: v, outcome: null });

export function Checks({ route }) {
  if (route.part) return html`<${Check} key=${route.part} id=${route.part} />`;
  return html`<${List} route=${route} />`;
}

function List({ route }) {
  const { show, ...query } = route.query;
  const blocked = show === "violations";
  const filters = blocked ? ofViolations : ofChecks;
  const list = usePages(blocked ? "/v1/violations" : "/v1/checks", { limit: 100, ...query }, { each: blocked ? checkOf : undefined });
  const tab = (of) => link("checks", "", { show: of, ...Object.fromEntries([...shared, type].map(([name]) => [name, query[name]])) });
  return html`
    <${Head} title="Checks"><button onClick=${list.reload}>Refresh</button><//>
    <${Tabs} label="Which checks" of=${[["All", tab(), !blocked], ["Blocked or escalated", tab("violations"), blocked]]} />
    <${Filters} of=${filters} values=${query} keep=${{ show }} list=${list} change=${(values) => go(link("checks", "", values))} />
    <${CheckTable} list=${list} label="Checks, the newest first" empty=${html`<${Empty} title="No checks.">${Object.keys(route.query).length
      ? "None is as the filters say." : html`What agents ask with <code>POST /v1/checks</code> appears here. Until then, <a href=${link("policies")}>open a policy</a> and try an action.`}<//>`} />`;
}

// A check's identifier begins with its millisecond: by that its record is found.
const timeOf = (id) => new Date(parseInt(id.slice(4, 16), 16)).toISOString();

async function record(id, signal) {
  const result = await get(`/v1/checks/${segment(id)}`, { signal });
  for (let cursor, page = 0; page < 20; page++) {
    const at = timeOf(id);
    const read = await get("/v1/checks", { query: { from: at, to: at, limit: 100, cursor }, signal });
    const found = read.data.find((c) => c.check_id === id);
    if (found) return found;
    cursor = read.pagination.next_cursor;
    if (!cursor) break;
  }
  return result;
}

function Check({ id }) {
  const read = useLoad((signal) => record(id, signal), [id]);
  const c = read.data;
  if (!c) return html`<${Awaited} title="Check" of=${read} />`;
  const a = c.action;
  return html`
    <article class="record">
      <${Head} title="Check" back=${[link("checks"), "All checks"]} />
      <p class="state"><${Badge} of=${c.decision} /><span class="hint"><${Time} at=${c.timestamp} /></span></p>
      ${a && html`<p class="ask"><${Amount} value=${a.amount} currency=${a.currency} large /><span class="verb">${a.action_type} to <${Counterparty} name=${a.counterparty} /></span></p>`}
      <${Why} c=${c} />
      ${a && html`<section><h2>What was asked</h2>
        <${Asked} action=${a} by=${c.principal} policy=${a.policy_id} version=${c.policy_version} /></section>`}
      <section><h2>The decision</h2><${Facts} of=${[
        ["Check", html`<${ID} id=${c.check_id} />`],
        ["Confidence", c.confidence],
        ["Decided within", took(c.latency_ms)],
        ["The agent was told", c.next_step && html`<${Linked} text=${c.next_step} />`],
      ]} /></section>
      ${c.approval_id && may("approvals:read") && html`<${People} id=${c.approval_id} />`}
      <${Outcome} c=${c} />
      ${c.payment && html`<${Payment} c=${c} />`}
      <details class="exactly"><summary>As JSON</summary><pre class="json">${print(c)}</pre></details>
      <p class="hint">Fingerprint, request and place in the hash chain, and whether the record is as it was written: <code>spendgate audit show ${c.check_id}</code></p>
    </article>`;
}

// Why shows the rule that decided, beside what it was compared with.
function Why({ c }) {
  const policy = c.action?.policy_id;
  const { data } = useLoad((signal) => (policy && c.violated_rule_id && may("policies:read")
    ? get(`/v1/policies/${segment(policy)}`, { query: { version: c.policy_version }, signal }) : null), [c.check_id]);
  const rule = data?.rules.find((r) => r.rule_id === c.violated_rule_id);
  const title = { allow: "Why it was allowed", block: "Why it was blocked", escalate: "Why people decide" }[c.decision];
  return html`
    <section class=${`why ${c.decision}`}><h2>${title}</h2>
      ${c.message && html`<p class="message"><${Linked} text=${c.message} /></p>`}
      ${c.violated_rule_id && html`<ul class="rules"><li><${Rule} policy=${policy} id=${c.violated_rule_id} /> <span>${c.violated_rule_description}</span>
        ${rule && html`<span class="hint">${ruleWords(rule)}</span>`}</li></ul>`}
      ${c.reason_code && html`<p class="hint">${spoken(c.reason_code)}</p>`}
    </section>`;
}

// People shows the approval that the check asked for or used.
function People({ id }) {
  const { data: a, error } = useLoad((signal) => get(`/v1/approvals/${segment(id)}`, { signal }), [id]);
  return html`
    <section><h2>Who decided</h2>
      <p><a href=${link("approvals", id, { show: "all" })}><${ID} id=${id} /></a>${a && html` <${Badge} of=${a.status} />`}</p>
      <${Failure} error=${error} />
      ${a && (a.decisions.length > 0 ? html`<${Decided} of=${a.decisions} />` : html`<p class="hint">Nobody so far.</p>`)}
    </section>`;
}

// Payment is what the check is part of, and each check of it (S84).
function Payment({ c }) {
  const { payment: p, principal } = c;
  const list = usePages("/v1/checks", { payment_key: p.payment_key, principal, limit: 100 });
  const a = p.approval;
  return html`
    <section><h2>The payment</h2>
      <p class="hint">Carried out at most once, however often it is asked for. What is said here is of its current check.</p>
      <${Facts} of=${[
        ["Payment key", html`<${Theirs} text=${p.payment_key} />`],
        ["State", html`<${Badge} of=${p.state}>${spoken(p.state)}<//>, attempt ${p.attempt}`],
        ["Redeemed", p.redeemed_at && html`<${Time} at=${p.redeemed_at} />`],
        ["Outcome", p.outcome && html`<${Badge} of=${p.outcome} />`],
        ["Reference", p.reference && html`<${Theirs} text=${p.reference} />`],
        ["Provider was given", p.execution_id && html`<code>${p.execution_id}</code>`],
        ["Approval", a && html`<a href=${link("approvals", a.approval_id, { show: "all" })}><${ID} id=${a.approval_id} /></a> <${Badge} of=${a.status} />`],
      ]} />
      <h3>Its checks</h3>
      <${CheckTable} list=${list} label="Checks of the payment, the newest first" />
    </section>`;
}

function Outcome({ c }) {
  if (c.decision !== "allow") return null;
  const [o, r] = [c.outcome, c.redemption];
  return html`
    <section><h2>What became of it</h2>
      ${r && html`<${Facts} of=${[
        ["Redeemed by", html`<${Who} name=${r.principal} />`], ["Redeemed", html`<${Time} at=${r.redeemed_at} />`],
        ["In doubt since", r.in_doubt_at && html`<${Time} at=${r.in_doubt_at} />`],
      ]} />`}
      ${!o ? html`<p class="hint">Nothing was reported yet.</p>` : html`<${Facts} of=${[
        ["Outcome", html`<${Badge} of=${o.status} />`],
        ["Amount", o.amount !== null && html`<${Amount} value=${o.amount} currency=${c.action?.currency} />`],
        ["Returned to budgets", o.release === "none" ? null : spoken(o.release)],
        ["Remarks", o.flags.map(spoken).join(", ")],
        ["Reference", o.reference && html`<${Theirs} text=${o.reference} />`],
        ["Note", o.note && html`<${Theirs} text=${o.note} lines />`],
        ["Reported by", html`<${Who} name=${o.principal} />, report ${o.report}`],
        ["Reported", html`<${Time} at=${o.at} />`],
      ]} />`}
    </section>`;
}
