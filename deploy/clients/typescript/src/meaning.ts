import type { GuardedAction } from "./guard-types.js";
import { canonical } from "./hash.js";
import type { Action } from "./types.js";

/** What a call makes of its arguments: the action, and its text. They are the caller's, and live. */
export interface Meant {
  action: Action & { idempotency_key: string };
  text: string;
  /** Whether they make the same action now. */
  isSame(): boolean;
}

/** What an object, or nothing, leaves in a text. */
const noName = /\[object \w+\]| at 0x[0-9a-fA-F]+>|\b(None|undefined|null|NaN)\b/;

export function meaning(defaults: Partial<Action>, make: () => GuardedAction): Meant {
  const whole = () => {
    const action = { ...defaults, ...make() } as Action & { idempotency_key: string };
    const key = action.idempotency_key;
    if (typeof key !== "string" || !key.trim() || noName.test(key)) {
      const needs = "what is guarded needs an idempotency key of its own, such as the number of an order, and not the text of an object";
      throw new TypeError(`${JSON.stringify(key)} names no action: ${needs}`);
    }
    return { action, text: canonical(action) };
  };
  const first = whole();
  const isSame = () => {
    try {
      const { action, text } = whole();
      return action.idempotency_key === first.action.idempotency_key && text === first.text;
    } catch {
      return false; // they make none any more
    }
  };
  return { ...first, isSame };
}
