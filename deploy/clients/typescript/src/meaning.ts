import { BadKey } from "./errors.js";
import type { GuardedAction } from "./guard-types.js";
import { canonical } from "./hash.js";
import type { Action } from "./types.js";

/** What a call makes of its arguments: the action, and its text. They are the caller's, and live. */
export interface Meant {
  action: Action & { idempotency_key: string };
  text: string;
  /** Whether its idempotency key is the text of an object, or of nothing. */
  isNameless: boolean;
  /** Whether they make the same action now. It throws what the plan's functions throw. */
  isSame(): boolean;
}

/** What an object leaves in a text, and what nothing does, as the whole or at its end. */
const noName = /\[object \w+\]| at 0x[0-9a-fA-F]+>|(^|[^\p{L}\p{N}])(None|undefined|null|NaN)$/u;

export function meaning(defaults: Partial<Action>, make: () => GuardedAction): Meant {
  const whole = () => {
    const action = { ...defaults, ...make() } as Action & { idempotency_key: string };
    const key = action.idempotency_key;
    if (typeof key !== "string" || !key.trim()) throw new BadKey(key);
    return { action, text: canonical(action) };
  };
  const first = whole();
  const isSame = () => {
    const { action, text } = whole();
    return action.idempotency_key === first.action.idempotency_key && text === first.text;
  };
  if (!isSame())
    throw new TypeError("the plan's functions give not the same twice, as with new Date() or randomUUID(): make that before the call");
  return { ...first, isNameless: noName.test(first.action.idempotency_key), isSame };
}
