// Requests to the API of this origin.
import { parse } from "./json.js";
import { session, signOut } from "./session.js";

// APIError is an error as the API words it. Status 0: no answer came.
export class APIError extends Error {
  constructor(status, code, message, requestID, retryAfter) {
    super(message);
    Object.assign(this, { status, code, requestID, retryAfter });
  }
}

// How far the node's clock is ahead of this machine's, in milliseconds. A Date has whole seconds.
let ahead = 0;
function compareClocks(date) {
  const difference = Date.parse(date ?? "") + 500 - Date.now();
  if (Number.isFinite(difference)) ahead = Math.abs(difference) < 5000 ? 0 : difference;
}

// nodeTime returns the time by the node's clock, by which approvals expire.
export const nodeTime = () => Date.now() + ahead;

const queryOf = (values) => {
  const given = Object.entries(values ?? {}).filter(([, v]) => v !== undefined && v !== null && v !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

// call sends a request and returns its body, parsed, or text of it with `raw`.
// Options: query, body (an object or a JSON text), admin, wait (seconds), signal, ifMatch,
// and keys instead of those of the session.
export async function call(method, path, options = {}) {
  const { apiKey, adminKey, cookie } = options.keys ?? session();
  const headers = { Accept: "application/json" };
  if (options.admin) headers["X-Admin-Key"] = adminKey ?? "";
  else if (apiKey) headers["X-API-Key"] = apiKey;
  const preferred = [options.wait && `wait=${options.wait}`, options.textAmounts && "amounts=string"].filter(Boolean);
  if (preferred.length) headers.Prefer = preferred.join(", ");
  if (options.ifMatch !== undefined) headers["If-Match"] = String(options.ifMatch);
  let body;
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    body = typeof options.body === "string" ? options.body : JSON.stringify(options.body);
  }
  let response, text;
  const timeout = AbortSignal.timeout(((options.wait ?? 0) + 15) * 1000);
  const signal = options.signal && AbortSignal.any ? AbortSignal.any([options.signal, timeout]) : options.signal ?? timeout;
  try {
    response = await fetch(path + queryOf(options.query), {
      method, headers, body, signal, credentials: cookie ? "same-origin" : "omit", cache: "no-store", referrerPolicy: "no-referrer", redirect: "error",
    });
    text = await response.text();
    compareClocks(response.headers.get("Date"));
  } catch (e) {
    if (options.signal?.aborted) throw e;
    throw new APIError(0, "no_answer", "The node does not answer.", "");
  }
  if (response.ok) return text === "" ? null : parse(text);
  const error = errorOf(response, text);
  if (response.status === 401 && !options.keys && !options.admin) {
    signOut({ message: error.message, requestID: error.requestID });
  }
  throw error;
}

function errorOf(response, text) {
  const requestID = response.headers.get("X-Request-ID") ?? "";
  const retryAfter = Number(response.headers.get("Retry-After") ?? 0);
  try {
    const { error } = parse(text);
    return new APIError(response.status, error.code, error.message, error.request_id ?? requestID, retryAfter);
  } catch {
    return new APIError(response.status, "unexpected", `An answer with status ${response.status} that is none of the API's.`, requestID, retryAfter);
  }
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { ...options, body });
export const segment = encodeURIComponent;
