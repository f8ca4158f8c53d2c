import { amount, payable } from "./amount.js";
import { BadKey } from "./errors.js";
import type { GuardedAction } from "./guard-types.js";
import { encode } from "./json.js";
import type { Action } from "./types.js";

/** The action that a call makes of its arguments. The caller may still change the arguments. */
export interface Meant {
  action: Action & { payment_key: string };
  /** Whether the arguments still make the same action. An action that cannot be made any more is another one. */
  isSame(): boolean;
}

/** The traces in a text of an object anywhere, and of a missing value as the whole or at the end. */
const noName = /\[object \w+\]| at 0x[0-9a-fA-F]+>|(^|[^\p{L}\p{N}])(None|undefined|null|NaN)$/u;

/** Digits, which are the same however a part of a key is written. */
const mark = "7046029254386353131";

/** hasGap reports whether a blank text of the input is a part of the key: another text in its place would make another key. */
export function hasGap<I>(name: (input: I) => string, input: I): boolean {
  const bare = (text: string) => text.replace(/\s/g, "");
  try {
    const other = name(filled(input) as I);
    return other.includes(mark) && bare(other.replaceAll(mark, "")) === bare(name(input));
  } catch {
    return false; // a function that takes certain texts only
  }
}

function filled(value: unknown): unknown {
  if (typeof value === "string") return value.trim() ? value : mark;
  if (Array.isArray(value)) return value.map(filled);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member)]));
}

export function meaning(defaults: object, make: () => GuardedAction): Meant {
  const whole = () => {
    const action = { ...defaults, ...make() } as Action & { payment_key: string };
    const key = action.payment_key;
    if (typeof key !== "string" || !key.trim() || noName.test(key)) throw new BadKey(key);
    payable(action.amount, action.currency);
    return { action, text: canonical(action) };
  };
  const { action, text } = whole();
  const isSame = () => {
    try {
      return whole().text === text;
    } catch {
      return false;
    }
  };
  if (!isSame())
    throw new TypeError("the plan's functions give not the same twice, as with new Date() or randomUUID(): make that before the call");
  return { action, isSame };
}

/** canonical returns an action as text. The text is the same for actions that the service considers the same under one key. */
function canonical({ reason_text: reason, ...action }: Action): string {
  // A model words its reason differently in each attempt. It is part of the action only if the type is derived from it.
  const derived = action.action_type === undefined ? { reason_text: reason } : {};
  return encode(sorted({ ...action, ...derived, amount: amount(action.amount), currency: action.currency.toUpperCase() }));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, sorted(member)]));
}
