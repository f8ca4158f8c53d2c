import { sameNumber } from "./amount.js";

/** A number of JSON that a JavaScript number cannot represent exactly. It is written unchanged. */
export class ExactNumber {
  constructor(readonly text: string) {
    if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text))
      throw new RangeError(`${JSON.stringify(text)} is no number of JSON`);
  }
  toString(): string {
    return this.text;
  }
}

// Members of these names in answers are money, and are returned as text whether the service wrote
// a number or a string. Inside the members of theirs the names are chosen by people and agents.
const money = new Set(["amount", "limit", "used", "remaining", "remaining_after_approved"]);
const theirs = new Set(["metadata", "parameters"]);

const deepest = 200;

/**
 * decode reads one JSON value and throws on anything else. It also throws if a name occurs twice in
 * an object, since two readers could see different values.
 */
export function decode(text: string): unknown {
  return new Reader(text).document();
}

class Reader {
  private at = 0;
  private depth = 0;
  constructor(private readonly text: string) {}

  document(): unknown {
    const value = this.value(false, true);
    this.match(/[ \t\n\r]*/y);
    if (this.at !== this.text.length) this.fail();
    return value;
  }

  private fail(): never {
    throw new SyntaxError(`it is not one JSON value, at ${this.at}`);
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }

  private token(pattern: RegExp): string | undefined {
    this.match(/[ \t\n\r]*/y);
    return this.match(pattern);
  }

  /** value reads a value. isMoney says whether a number is money, ours whether the names inside are the service's. */
  private value(isMoney: boolean, ours: boolean): unknown {
    const opened = this.token(/[[{]/y);
    if (opened) {
      if (++this.depth > deepest) this.fail();
      const value = opened === "{" ? this.object(ours) : this.array(ours);
      this.depth--;
      return value;
    }
    const string = this.string();
    if (string !== undefined) return string;
    const number = this.match(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (number !== undefined) return isMoney ? number : toNumber(number);
    const word = this.match(/true|false|null/y);
    if (word === undefined) this.fail();
    return word === "null" ? null : word === "true";
  }

  private string(): string | undefined {
    const quoted = this.token(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y);
    if (quoted === undefined) return undefined;
    const text = JSON.parse(quoted) as string;
    if (/\p{Cs}/u.test(text)) this.fail(); // half of a surrogate pair is not Unicode text
    return text;
  }

  private object(ours: boolean): unknown {
    const members = new Map<string, unknown>();
    if (this.token(/\}/y)) return {};
    for (;;) {
      const name = this.string();
      if (name === undefined || members.has(name) || !this.token(/:/y)) this.fail();
      const mine = ours && !theirs.has(name);
      members.set(name, this.value(mine && money.has(name), mine));
      if (this.token(/\}/y)) return Object.fromEntries(members);
      if (!this.token(/,/y)) this.fail();
    }
  }

  private array(ours: boolean): unknown {
    const elements: unknown[] = [];
    if (this.token(/\]/y)) return elements;
    for (;;) {
      elements.push(this.value(false, ours));
      if (this.token(/\]/y)) return elements;
      if (!this.token(/,/y)) this.fail();
    }
  }
}

function toNumber(text: string): number | ExactNumber {
  const number = Number(text);
  return sameNumber(text, String(number)) ? number : new ExactNumber(text);
}

/** encode writes a value as JSON. Undefined members are left out, and a bigint becomes a number. */
export function encode(value: unknown): string {
  if (value instanceof ExactNumber || typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError("a number of a request is not finite");
  if (Array.isArray(value)) return `[${value.map((element) => encode(element ?? null)).join(",")}]`;
  if (typeof value === "object" && value !== null && !("toJSON" in value)) {
    // A Map, a Set or a promise has no enumerable members: {} would be judged in its place.
    if (Object.prototype.toString.call(value) !== "[object Object]") throw new TypeError("a request has an object that is not JSON");
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${encode(member)}`).join(",")}}`;
  }
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError("a request has something that is not JSON");
  return text;
}
