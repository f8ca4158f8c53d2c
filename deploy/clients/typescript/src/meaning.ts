import { payable } from "./amount.js";
import { BadKey } from "./errors.js";
import type { GuardedAction } from "./guard-types.js";
import { canonical } from "./hash.js";
import type { Action } from "./types.js";

/** The action that a call makes of its arguments, and its text. The caller may still change the arguments. */
export interface Meant {
  action: Action & { idempotency_key: string };
  text: string;
  /** Whether the idempotency key is the text of an object, or of nothing such as undefined. */
  isNameless: boolean;
  /** Whether the arguments still make the same action. It throws what the plan's functions throw. */
  isSame(): boolean;
}

/** The traces in a text of an object anywhere, and of a missing value as the whole or at the end. */
const noName = /\[object \w+\]| at 0x[0-9a-fA-F]+>|(^|[^\p{L}\p{N}])(None|undefined|null|NaN)$/u;

export function meaning(defaults: Partial<Action>, make: () => GuardedAction): Meant {
  const whole = () => {
    const action = { ...defaults, ...make() } as Action & { idempotency_key: string };
    const key = action.idempotency_key;
    if (typeof key !== "string" || !key.trim()) throw new BadKey(key);
    payable(action.amount, action.currency);
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
