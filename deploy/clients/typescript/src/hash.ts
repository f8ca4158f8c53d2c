import { amount } from "./amount.js";
import { encode } from "./json.js";
import type { Action } from "./types.js";

/** actionHash is the SHA-256 of what an action is: the same for those that the service takes for the same under one key. */
export async function actionHash(action: Action): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical(action)));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function canonical({ idempotency_key: _key, approval_id: _approval, reason_text: reason, ...action }: Action): string {
  // The words differ from one attempt of a model to the next. They are no part of the action unless its type is derived from them.
  const derived = action.action_type === undefined ? { reason_text: reason } : {};
  return encode(sorted({ ...action, ...derived, amount: amount(action.amount), currency: action.currency.toUpperCase() }));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, sorted(member)]));
}
