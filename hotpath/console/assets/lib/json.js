// JSON whose numbers keep their text: an amount never becomes a binary fraction.

// Exact is a number that is not a small whole one, as it was written.
class Exact {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

const mark = "\u0000"; // which no text of the API has
const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const whole = /^(?:0|-?[1-9]\d{0,14})$/;

// parse reads JSON. Whole numbers of up to 15 digits are numbers, all others Exact.
export function parse(text) {
  const marked = text.replace(tokens, (token) => (token[0] === '"' || whole.test(token) ? token : `"\\u0000${token}"`));
  return JSON.parse(marked, (_, value) => (typeof value === "string" && value[0] === mark ? new Exact(value.slice(1)) : value));
}

// print writes a value as JSON, indented; short lists stand on one line.
export function print(value, indent = "") {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const list = Array.isArray(value);
  const items = list ? value.map((v) => print(v, indent + "  ")) : Object.entries(value)
    .filter(([, v]) => v !== undefined)
    .map(([name, v]) => `${JSON.stringify(name)}: ${print(v, indent + "  ")}`);
  const [open, close] = list ? "[]" : "{}";
  if (items.length === 0) return open + close;
  const line = `${open}${items.join(", ")}${close}`;
  if (line.length < 72 && !line.includes("\n")) return line;
  return `${open}\n${items.map((item) => `${indent}  ${item}`).join(",\n")}\n${indent}${close}`;
}

// exact returns the text of a number or an amount, "" of what is absent.
export const exact = (value) => (value === null || value === undefined ? "" : String(value));

// positions returns where each value of a JSON text begins, by its path as the API writes
// it: rules[2].parameters.limit. A member begins with its name.
function positions(text) {
  const found = new Map();
  const around = []; // the lists and objects that are open: their paths, the item of a list, whether a member has its name
  let path = "";
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const of = around.at(-1);
    if (token === "}" || token === "]") around.pop();
    else if (token === "," && of) {
      of.named = false;
      if (of.item !== undefined) path = `${of.path}[${++of.item}]`;
    } else if (of && of.item === undefined && !of.named) {
      try { path = [of.path, JSON.parse(token)].filter(Boolean).join("."); } catch { break; }
      of.named = true;
      found.set(path, index);
    } else if (token !== ":") {
      if (!found.has(path)) found.set(path, index);
      if (token === "{") around.push({ path });
      if (token === "[") { around.push({ path, item: 0 }); path += "[0]"; }
    }
  }
  return found;
}

// lineOf returns the number of the line at a position, from 1.
const lineOf = (text, position) => text.slice(0, position).split("\n").length;

// faultsOf splits the message of a 422 into faults with their paths and lines. What has no
// place of its own stands where the nearest thing around it is.
export function faultsOf(message, text) {
  const at = positions(text);
  return message.split("; ").map((fault) => {
    const path = fault.split(" ", 1)[0];
    let near = path;
    while (near && !at.has(near)) near = near.replace(/(\.[^.[\]]*|\[\d+\]|^[^.[\]]*)$/, "");
    return { text: fault, path, line: near ? lineOf(text, at.get(near)) : 1 };
  });
}

// syntaxFault returns what is wrong with a text that should be JSON, or null.
export function syntaxFault(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (e) {
    const position = /position (\d+)/.exec(e.message);
    const line = position ? lineOf(text, Number(position[1])) : lineOf(text, text.length);
    return { text: `this is no JSON: ${e.message.replace(/ in JSON at position.*/, "")}`, path: "", line };
  }
}

const written = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

// read returns an amount as a whole number of units of 10^-18, or null of what is none.
function read(value) {
  const [, sign, whole, rest = "", exponent = "0"] = written.exec(exact(value)) ?? [];
  const moved = 18 - rest.length + Number(exponent);
  if (whole === undefined || moved < 0 || moved > 100) return null;
  return BigInt(`${sign}${whole}${rest}`) * 10n ** BigInt(moved);
}

// compare returns a number below, at or above 0; 0 too if one of both is no amount.
export function compare(a, b) {
  const [x, y] = [read(a), read(b)];
  return x === null || y === null || x === y ? 0 : x < y ? -1 : 1;
}

// minus returns the text of a less b.
export const minus = (a, b) => text(read(a) - read(b));

// sum returns the text of the sum of amounts.
export const sum = (amounts) => text(amounts.reduce((total, amount) => total + (read(amount) ?? 0n), 0n));

function text(left) {
  const digits = (left < 0n ? -left : left).toString().padStart(19, "0");
  return `${left < 0n ? "-" : ""}${digits.slice(0, -18)}.${digits.slice(-18)}`.replace(/\.?0+$/, "");
}
