// What differs between two versions of a policy, in words and in lines.
import { print } from "./json.js";
import { grouped, ruleWords } from "./words.js";

// differences returns sentences, one for each rule or member that differs.
export function differences(from, to) {
  const found = [];
  for (const name of ["name", "description"]) {
    const text = (p) => (p[name] ? `“${p[name]}”` : "absent");
    if (text(from) !== text(to)) found.push(`${name} was ${text(from)} and is ${text(to)}`);
  }
  const before = new Map(from.rules.map((r) => [r.rule_id, r]));
  const after = new Set(to.rules.map((r) => r.rule_id));
  for (const rule of to.rules) {
    const old = before.get(rule.rule_id);
    if (!old) found.push(`${rule.rule_id} is new: it ${ruleWords(rule)}`);
    else found.push(...changes(old, rule));
  }
  for (const rule of from.rules) {
    if (!after.has(rule.rule_id)) found.push(`${rule.rule_id} is gone: it ${ruleWords(rule)}`);
  }
  const kept = (rules, others) => rules.map((r) => r.rule_id).filter((id) => others.some((r) => r.rule_id === id)).join();
  if (kept(from.rules, to.rules) !== kept(to.rules, from.rules)) found.push("the order of the rules is another");
  if (print(from.metadata ?? null) !== print(to.metadata ?? null)) found.push("metadata differs");
  for (const name of ["redeem", "redeem_within_minutes", "changes"]) {
    const text = (p) => (p[name] === undefined ? "absent" : print(p[name]));
    if (text(from) !== text(to)) found.push(`${name} was ${text(from)} and is ${text(to)}`);
  }
  return found.length ? found : ["Nothing."];
}

function changes(old, rule) {
  if (old.rule_type !== rule.rule_type) return [`${rule.rule_id} was a ${old.rule_type} and is a ${rule.rule_type}: it ${ruleWords(rule)}`];
  const found = [];
  if ((old.description ?? "") !== (rule.description ?? "")) found.push(`${rule.rule_id} says “${rule.description ?? ""}”, no longer “${old.description ?? ""}”`);
  const members = (r) => ({ ...(r.when && { when: r.when }), ...r.parameters });
  const [was, is] = [members(old), members(rule)];
  for (const name of new Set([...Object.keys(was), ...Object.keys(is)])) {
    const text = (of) => (of[name] === undefined ? "absent" : typeof of[name] === "string" ? print(of[name]) : grouped(print(of[name])));
    if (text(was) !== text(is)) found.push(`${rule.rule_id}: ${name} was ${text(was)} and is ${text(is)}`);
  }
  return found;
}

// lines returns the lines of both texts with the signs of a difference: " ", "-", "+".
export function lines(from, to) {
  const [a, b] = [from.split("\n"), to.split("\n")];
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push([" ", a[i]]); i++; j++; }
    else if (i < a.length && (j === b.length || longest[i + 1][j] >= longest[i][j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}
