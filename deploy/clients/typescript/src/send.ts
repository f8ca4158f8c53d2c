import { APIError, Differs, Frozen, NoAnswer, type SpendgateError } from "./errors.js";
import { decode, encode } from "./json.js";

export interface Options {
  /** http://host:port or https://host, without /v1. */
  baseUrl: string;
  /** For all requests except health, and simulate, which is in demo mode without it. */
  apiKey?: string;
  /** For API keys and webhooks. */
  adminKey?: string;
  /** The maximum for one request; 1 repeats nothing. 4 by default. */
  attempts?: number;
  /** The timeout of each attempt, in milliseconds; 10,000 by default. */
  attemptTimeout?: number;
  /** The longest Retry-After that is waited for, in milliseconds; 60,000 by default. */
  maxWait?: number;
  /** The W3C Trace Context that requests continue. */
  trace?: () => { traceparent: string; tracestate?: string } | undefined;
  /** Instead of the runtime's fetch. */
  fetch?: typeof fetch;
}

/** How long a call may take with all its attempts, in milliseconds, and a signal that ends it. */
export interface CallOptions {
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface Request extends CallOptions {
  method: string;
  path: string;
  content?: unknown;
  /** The statuses of a success; 200 by default. */
  statuses?: number[];
  /** Whether the request has the same effect if it is sent twice. */
  repeatable?: boolean;
  admin?: boolean;
  /** For how long, in milliseconds, a request that may have been executed is repeated, however many attempts that takes. */
  persist?: number;
  /** Throws on a success that is not the service's. With it, an answer of another server is asked for again as a lost one. */
  accept?: (reply: Reply) => unknown;
  /** Seconds for which the service may hold its answer. */
  wait?: number;
  idempotencyKey?: string;
  /** The version that must be in force. */
  ifMatch?: string;
}

export interface Reply {
  headers: Headers;
  text: string;
}

/** Sent is the end of a request. */
export interface Sent {
  reply?: Reply;
  error?: SpendgateError;
  /** Whether an attempt without a success may have been executed. */
  unknown: boolean;
}

interface Attempt {
  reply?: Reply;
  error?: SpendgateError;
  reached?: boolean;
  retry?: boolean;
  /** Milliseconds, from Retry-After. */
  after?: number;
}

const firstBackoff = 100;
const maxBackoff = 5_000;
/** The maximum size of an answer, since a wrong address could send anything. */
const maxAnswer = 8 << 20;

export type Pause = (milliseconds: number, signal?: AbortSignal) => Promise<void>;

export class Sender {
  readonly #base: string;
  readonly #options: Options;
  readonly #pause: Pause;

  constructor(options: Options, pause: Pause) {
    const url = new URL(options.baseUrl);
    if (!/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
      throw new TypeError("baseUrl must be http://host:port or https://host, without user, query and fragment");
    }
    if (/\/v1\/*$/.test(url.pathname)) throw new TypeError("baseUrl must not end with /v1, which the client adds");
    for (const name of ["apiKey", "adminKey"] as const) {
      if (/[^\x20-\x7e]/.test(options[name] ?? "")) throw new TypeError(`${name} has a character that no header can carry`);
    }
    this.#base = url.href.replace(/\/+$/, "");
    this.#options = options;
    this.#pause = pause;
  }

  /** send sends a request until it succeeds, is refused or should not be sent again. */
  async send(request: Request): Promise<Sent> {
    const { attempts = 4, maxWait = 60_000 } = this.#options;
    const began = performance.now();
    const ends = began + (request.timeout ?? Infinity);
    const body = request.content === undefined ? undefined : encode(request.content);
    let unknown = false;
    for (let i = 0; ; i++) {
      const { reply, error, reached = false, retry = false, after = 0 } = await this.#once(request, body, ends);
      if (reply) return { reply, unknown };
      unknown ||= reached;
      // A request answered 429 was not processed. One that may have been carried out is not repeated unless that is safe.
      const again = retry && (request.repeatable || !reached);
      const wait = after + Math.random() * Math.min(firstBackoff * 2 ** Math.min(i, 10), maxBackoff);
      const isLast = i + 1 >= attempts && !(unknown && performance.now() - began < (request.persist ?? 0));
      if (!again || isLast || after > maxWait || request.signal?.aborted || performance.now() + wait > ends) {
        return { error: error as SpendgateError, unknown };
      }
      try {
        await this.#pause(wait, request.signal);
      } catch {
        return { error: error as SpendgateError, unknown };
      }
    }
  }

  async #once(request: Request, body: string | undefined, ends: number): Promise<Attempt> {
    const { attemptTimeout = 10_000, fetch: send = fetch } = this.#options;
    const controller = new AbortController();
    const limit = Math.min(attemptTimeout + 1000 * (request.wait ?? 0), ends - performance.now());
    const timer = setTimeout(() => controller.abort(new DOMException("it took too long", "TimeoutError")), limit);
    const giveUp = () => controller.abort(request.signal?.reason);
    request.signal?.addEventListener("abort", giveUp);
    try {
      if (request.signal?.aborted) giveUp();
      const response = await send(this.#base + request.path, {
        method: request.method,
        headers: this.#headers(request, body !== undefined),
        redirect: "manual", // a redirect would send the key to another address
        signal: controller.signal,
        ...(body === undefined ? {} : { body }),
      });
      const text = await read(response);
      if (text !== undefined && (request.statuses ?? [200]).includes(response.status)) {
        const reply = { headers: response.headers, text };
        request.accept?.(reply);
        return { reply };
      }
      const error = refusal(response, text ?? "");
      const temporary = error.status >= 500 || error.status === 429 || (request.accept !== undefined && !error.definite);
      return { error, reached: !error.definite, retry: temporary, after: 1000 * error.retryAfter };
    } catch (problem) {
      return {
        error: problem instanceof NoAnswer ? problem : new NoAnswer(`no answer from the service: ${reason(problem)}`, problem),
        reached: !neverSent(problem),
        retry: true,
      };
    } finally {
      clearTimeout(timer);
      request.signal?.removeEventListener("abort", giveUp);
    }
  }

  #headers(request: Request, hasBody: boolean): Record<string, string> {
    const { apiKey, adminKey, trace } = this.#options;
    const headers: Record<string, string> = {
      Prefer: request.wait ? `amounts=string, wait=${request.wait}` : "amounts=string",
      ...continued(trace?.()),
    };
    if (hasBody) headers["Content-Type"] = "application/json";
    if (request.idempotencyKey) headers["Idempotency-Key"] = request.idempotencyKey;
    if (request.ifMatch) headers["If-Match"] = request.ifMatch;
    if (adminKey && (request.admin || !apiKey)) headers["X-Admin-Key"] = adminKey; // a request needs only one key
    else if (!request.admin && apiKey) headers["X-API-Key"] = apiKey;
    return headers;
  }
}

/** continued returns the headers of a trace, each if it is well-formed: a trace is no reason to fail a check. */
function continued(trace: { traceparent: string; tracestate?: string } | undefined): Record<string, string> {
  if (!trace || !/^(?!ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(trace.traceparent)) return {};
  const { traceparent, tracestate = "" } = trace;
  return /^[\x20-\x7e]{1,512}$/.test(tracestate) ? { traceparent, tracestate } : { traceparent };
}

/** read returns an answer's text, undefined if it is too long. It throws when the text broke off or is not UTF-8. */
async function read(response: Response): Promise<string | undefined> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const reader = response.body?.getReader();
  let text = "";
  for (let bytes = 0; reader;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    if (bytes > maxAnswer) {
      await reader.cancel();
      return undefined;
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}

function reason(problem: unknown): string {
  const { message, cause } = problem as Error;
  return cause instanceof Error && cause.message ? cause.message : message;
}

/** neverSent reports whether there was no connection to send anything on, if the runtime tells. */
function neverSent(problem: unknown): boolean {
  const cause = (problem as Error).cause as { code?: unknown } | undefined;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(
    String(cause?.code),
  );
}

/** The refusals that have a class of their own, by their codes. */
const kinds: Record<string, typeof APIError | undefined> = { payment_differs: Differs, frozen: Frozen };

function refusal(response: Response, text: string): APIError {
  let envelope: Record<string, unknown> = {};
  try {
    const body = decode(text) as { error?: Record<string, unknown> } | null;
    envelope = body?.error ?? {};
  } catch {
    // The answer is not the service's.
  }
  const member = (name: string) => (typeof envelope[name] === "string" ? envelope[name] : "");
  const code = member("code");
  return new (kinds[code] ?? APIError)({
    status: response.status,
    code,
    message: member("message"),
    requestId: member("request_id"),
    members: envelope,
    retryAfter: retryAfter(response.headers),
  });
}

/** retryAfter reads Retry-After, in seconds or as a date beside that of the answer, up to a day; 0 if it is neither. */
export function retryAfter(headers: Headers): number {
  const text = headers.get("Retry-After") ?? "";
  const [first = ""] = text.split(",");
  if (/^\d+$/.test(first.trim())) return Math.min(Number(first), 86_400);
  const at = httpDate(text.split(", ").slice(0, 2).join(", ")); // headers of one name are joined by ", "
  const now = httpDate(headers.get("Date") ?? "") || Date.now();
  return Math.min(Math.max(0, Math.ceil((at - now) / 1000) || 0), 86_400);
}

/** httpDate returns the milliseconds of a date of HTTP; NaN if the text is none. */
function httpDate(text: string): number {
  return /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} [\d:]{8} GMT$/.test(text) ? Date.parse(text) : NaN;
}

/** understand reads a successful answer with accept. It throws if the answer is not one of the service's. */
export function understand<T>(reply: Reply, accept: (body: unknown, reply: Reply) => T): T {
  try {
    return accept(reply.text === "" ? undefined : decode(reply.text), reply);
  } catch (problem) {
    throw new NoAnswer(`the service's answer cannot be understood: ${(problem as Error).message}`, problem);
  }
}

/** withQuery returns a path with the parameters that are not empty. */
export function withQuery(path: string, query: object): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : path;
}
