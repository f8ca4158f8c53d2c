// What a change of a policy does to its budgets that are in use (S37, S63).
import { html } from "../lib/html.js";
import { useLoad } from "../lib/api.js";
import { compare, exact } from "../lib/json.js";
import { may } from "../lib/session.js";
import { plural } from "../lib/words.js";
import { Failure, Theirs } from "../lib/parts.js";
import { countersOf, share } from "./budgets.js";

const given = (value) => value !== undefined && value !== null;
const budgets = (rules) => (Array.isArray(rules) ? rules : []).filter((r) => r?.rule_type === "budget" && r.parameters && typeof r.parameters === "object");

// meaning is what a counter goes on by: all but the limits. The service compares conditions by value.
function meaning({ when, parameters: { per, window, rolling_minutes, time_zone, currency, action_types } }) {
  const conditions = Object.entries(when ?? {}).filter(([name, value]) => name !== "on_missing" && given(value)).sort();
  const sorted = (list) => (Array.isArray(list) ? [...list].sort() : []);
  const types = sorted(action_types);
  return JSON.stringify([sorted(per), window ?? "", exact(rolling_minutes), window && window !== "lifetime" ? time_zone ?? "UTC" : "", String(currency ?? "").toUpperCase(), types.length === 4 ? [] : types, conditions]);
}

const isOver = (b, p) => (given(p.limit) && compare(b.used, p.limit) >= 0) || (given(p.max_count) && b.count >= Number(p.max_count));

// effect says what becomes of one budget of the version in force.
function effect(rule, next, counters, more) {
  const used = counters.filter((b) => b.rule_id === rule.rule_id && (b.count > 0 || compare(b.used, 0) > 0));
  const many = `${more ? "at least " : ""}${plural(used.length, "counter")} in use`;
  if (!next || meaning(next) !== meaning(rule)) {
    const how = next ? "counts from zero again" : "ends";
    return used.length === 0 && !more ? `${how}; nothing of it is in use` : `${how}: ${many}. The service asks for its rule_id before it lets go of what was used`;
  }
  const over = used.filter((b) => isOver(b, next.parameters));
  if (over.length === 0) return `keeps what was used: ${many}, none at its limit`;
  const fullest = over.reduce((a, b) => (share(b) > share(a) ? b : a));
  const whose = Object.values(fullest.per);
  return html`keeps what was used: ${many}, ${over.length} without room from then on${whose.length > 0 && html`, the fullest: ${whose.map((v, i) => html`${i > 0 && " "}<${Theirs} text=${exact(v)} />`)}`}`;
}

// InUse has a line for each budget that there is before or after the change.
export function InUse({ id, before, after }) {
  const [old, next] = [budgets(before), budgets(after)];
  const { data, error } = useLoad((signal) => (old.length > 0 && may("budgets:read") ? countersOf(id, signal) : null), [id]);
  const fresh = next.filter((r) => !old.some((o) => o.rule_id === r.rule_id));
  if (old.length + fresh.length === 0 || (old.length > 0 && !data && !error)) return null;
  return html`
    <section><h2>Effect on budgets</h2>
      <${Failure} error=${error} />
      <ul class="rules">${data && old.map((r) => html`<li><code>${r.rule_id}</code> ${effect(r, next.find((n) => n.rule_id === r.rule_id), data.counters, data.more)}.</li>`)}
        ${fresh.map((r) => html`<li><code>${r.rule_id}</code> begins at zero.</li>`)}</ul></section>`;
}
