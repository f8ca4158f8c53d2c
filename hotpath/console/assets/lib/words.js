// Times, durations and rules in words.
import { exact } from "./json.js";

const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const timeOnly = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

// localTime returns a time in the viewer's zone, without the date if it is today, unless it is dated.
export function localTime(text, dated = false) {
  const at = new Date(text);
  return !dated && new Date().toDateString() === at.toDateString() ? timeOnly.format(at) : dateTime.format(at);
}

// shortTime returns one for an axis, and listTime for a list: of today the time, of another year all of it.
export const shortTime = (text) => short.format(new Date(text));
export const listTime = (text) => (new Date(text).getFullYear() === new Date().getFullYear() && localTime(text) === dateTime.format(new Date(text)) ? shortTime(text) : localTime(text));

// inputTime returns one for a control of a form, to the minute.
export const inputTime = (text) => text && new Date(Date.parse(text) - new Date(text).getTimezoneOffset() * 60e3).toISOString().slice(0, 16);

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

// span returns a duration in words, of one or two units.
export function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = Math.max(0, units.findIndex(([, size]) => seconds >= size));
  const [name, size] = seconds === 0 ? units[3] : units[first];
  const whole = `${Math.floor(seconds / size)} ${name}`;
  const next = units[first + 1];
  const rest = next && name !== "min" ? Math.floor((seconds % size) / next[1]) : 0;
  return rest > 0 ? `${whole} ${rest} ${next[0]}` : whole;
}

// grouped returns a decimal with a comma between thousands, as the console writes all numbers: 12,000.
export const grouped = (value) => exact(value).replace(/^(-?\d+)/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));
export const plural = (n, one, many = `${one}s`) => `${grouped(n)} ${n === 1 ? one : many}`;

// minutes returns a number of minutes in the largest unit that it fills: 43200 are 30 days.
export function minutes(n) {
  const [size, unit] = [[1440, "day"], [60, "hour"], [1, "minute"]].find(([of]) => n % of === 0) ?? [1, "minute"];
  return plural(n / size, unit);
}

// spoken returns a code of the API as words.
export const spoken = (code) => code.replaceAll("_", " ");

// took returns a duration that the API has rounded down to whole milliseconds.
export const took = (ms) => (ms === 0 ? "under 1\u00a0ms" : `${ms}\u00a0ms`);

const list = (values) => (values ?? []).join(", ");
export const money = (amount, currency) => [grouped(inCurrency(exact(amount), currency)), currency].filter(Boolean).join(" ");

// minorDigits has the currencies of ISO 4217 whose minor unit has not two digits, as the service has them. Intl has those of CLDR.
const minorDigits = [
  [0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"],
  [3, "BHD IQD JOD KWD LYD OMR TND"],
  [4, "CLF UYW"],
];

// inCurrency returns a decimal with at least the digits that its currency has behind the point.
export function inCurrency(amount, currency) {
  const [, whole, fraction = ""] = /^(-?\d+)(?:\.(\d+))?$/.exec(amount) ?? [];
  if (whole === undefined || !/^[A-Za-z]{3}$/.test(currency ?? "")) return amount;
  const [digits] = minorDigits.find(([, codes]) => codes.split(" ").includes(currency.toUpperCase())) ?? [2];
  return [whole, fraction.padEnd(digits, "0")].filter(Boolean).join(".");
}

// ruleWords says what a rule does, and when.
export const ruleWords = (rule) => parameterWords(rule) + (rule.when ? ` when ${whenWords(rule.when)}` : "");

// whenWords says what has to match. A list of at most five values is shown.
function whenWords(when) {
  const any = (values) => (values.length > 5 ? `one of ${values.length} values` : values.map(exact).join(" or "));
  const bounds = (of) => Object.entries(of).map(([name, value]) => `${name.replaceAll("_", " ")} ${exact(value)}`).join(" and ");
  const words = {
    action_types: (v) => `it is a ${any(v)}`, currencies: (v) => `in ${any(v)}`, counterparties: (v) => `it goes to ${any(v)}`, payment_methods: (v) => `by ${any(v)}`,
    merchants: (v) => `at ${any(v)}`, categories: (v) => `the category is ${any(v)}`, countries: (v) => `the country is ${any(v)}`,
    amount_above: (v) => `above ${grouped(v)}`, amount_up_to: (v) => `up to ${grouped(v)}`,
    metadata: (v) => Object.entries(v).map(([name, of]) => `metadata.${name} is ${Array.isArray(of) ? any(of) : bounds(of)}`).join(" and "),
    present: (v) => `with ${v.join(" and ")}`, absent: (v) => `without ${v.join(" and ")}`,
  };
  const said = Object.entries(when).filter(([name, value]) => value !== null && words[name]).map(([name, value]) => words[name](value));
  const missing = when.on_missing && when.on_missing !== "skip" ? `, and ${when.on_missing}s what lacks a field of these` : "";
  return said.join(" and ") + missing;
}

function parameterWords(rule) {
  const p = rule.parameters ?? {};
  switch (rule.rule_type) {
    case "max_amount": return `blocks above ${money(p.limit, p.currency)}`;
    case "refund_age_limit": return `blocks refunds of purchases older than ${p.max_days} days`;
    case "blocked_categories": return `blocks the categories ${list(p.categories)}`;
    case "vendor_allowlist": return `allows spends to ${list(p.vendors)} alone`;
    case "blocked_payment_rails": return `blocks payment by ${list(p.rails)}`;
    case "discount_cap": return `blocks discounts above ${exact(p.max_percent)} %`;
    case "geography_block": return `blocks the countries ${list(p.blocked_countries)}`;
    case "time_restriction": return `blocks outside of ${[list(p.allowed_days), p.allowed_hours_utc ?? p.allowed_hours, p.time_zone ?? "UTC"].filter(Boolean).join(", ")}`;
    case "duplicate_guard": return `blocks the same action within ${minutes(p.window_minutes)}`;
    case "block_if": return p.message ? `blocks and says "${p.message}"` : "blocks";
    case "escalate_if": return `${asks(p)}${amounts(p)}${p.action_types ? ` for ${list(p.action_types)}` : ""}`;
    case "budget": return budgetWords(p);
    default: return rule.rule_type;
  }
}

function amounts(p) {
  const given = (value) => value !== undefined && value !== null;
  return (given(p.amount_above) ? ` above ${grouped(p.amount_above)}` : "") + (given(p.amount_up_to) ? ` up to ${grouped(p.amount_up_to)}` : "");
}

// asks says whom a rule asks that escalates; without an approval it asks nobody of this service.
function asks({ approval }) {
  if (!approval) return "escalates, without an approval,";
  if (!approval.from) return `asks ${approval.required > 1 ? `${approval.required} people` : "a person"}`;
  return `asks ${approval.from.map((g) => `${g.required ?? 1} of ${groupWords(g)}`).join(" and ")}`;
}

// groupWords names the groups of which people count.
export const groupWords = ({ group, any_of }) => group ?? any_of.join(" or ");

function budgetWords(p) {
  const most = [p.limit !== undefined && p.limit !== null && money(p.limit, p.currency), p.max_count !== undefined && p.max_count !== null && plural(p.max_count, "action")];
  const window = p.window === "lifetime" ? "ever" : p.window ? `a ${p.window}` : `in ${minutes(p.rolling_minutes)}`;
  const per = p.per?.length ? ` per ${p.per.join(" and ").replaceAll("_id", "").replaceAll("_", " ")}` : "";
  return `${p.on_exceed === "escalate" ? asks(p) : "blocks"} beyond ${most.filter(Boolean).join(" or ")} ${window}${per}`;
}
