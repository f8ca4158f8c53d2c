import { having } from "./accept.js";
import { BadSignature } from "./errors.js";
import { decode } from "./json.js";
import type { Event } from "./types.js";

/** A delivery is refused when its timestamp differs by more than this, in seconds. */
const tolerance = 300;

/**
 * verifyWebhook returns the event of a delivery (Standard Webhooks 1.0). It throws a BadSignature
 * when the delivery is not signed by the service, or too old. `body` is the text or bytes as
 * received, before any parsing. `secrets` may have several secrets during a rotation; one that
 * matches is enough. Drop an event whose id you had: delivery is at least once.
 */
export async function verifyWebhook(
  secrets: string | string[],
  headers: Headers | Record<string, string | string[] | undefined>,
  body: string | Uint8Array,
  now: Date = new Date(),
): Promise<Event> {
  const header = (name: string) => (headers instanceof Headers ? headers.get(name) : headers[name]) ?? "";
  const [id, at, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(header).map(String) as [
    string,
    string,
    string,
  ];
  if (!/^\d{1,15}$/.test(at) || Math.abs(now.getTime() / 1000 - Number(at)) > tolerance)
    throw new BadSignature("the webhook's timestamp is too far off, or none");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = concatenated(new TextEncoder().encode(`${id}.${at}.`), bytes);
  const given = signatures
    .split(" ")
    .flatMap((signature) => (signature.startsWith("v1,") ? [fromBase64(signature.slice(3))] : []));
  for (const secret of [secrets].flat()) {
    const key = fromBase64(secret.replace(/^whsec_/, ""));
    if (!key?.length) throw new TypeError("a webhook's secret is base64 behind whsec_"); // checked before any signature
    const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of given) {
      if (signature && (await crypto.subtle.verify("HMAC", imported, signature, signed))) return event(bytes);
    }
  }
  throw new BadSignature("no signature of the webhook fits");
}

function event(bytes: Uint8Array): Event {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return having<Event>("id", "type")(decode(text), { headers: new Headers(), text });
  } catch (problem) {
    throw new BadSignature("the webhook's body is no event", problem);
  }
}

function concatenated(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
