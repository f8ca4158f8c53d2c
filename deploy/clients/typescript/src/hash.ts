import { amount } from "./amount.js";
import { encode } from "./json.js";
import type { Action } from "./types.js";

/** hash returns the SHA-256 of a text, in hex. */
export async function hash(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** canonical returns an action as text. The text is the same for actions that the service considers the same under one key. */
export function canonical({ idempotency_key: _key, approval_id: _approval, reason_text: reason, ...action }: Action): string {
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
