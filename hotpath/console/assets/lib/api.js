// Requests to the API of this origin.
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { parse } from "./json.js";
import { keepFor, keptFor } from "./route.js";
import { session, signOut } from "./session.js";

// APIError is an error as the API words it. Status 0: no answer came.
class APIError extends Error {
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

// passes reports whether another attempt may end otherwise.
export const passes = (error) => error.status === 0 || error.status === 429 || error.status >= 500;

// useLoad reads when it is first shown and when what it depends on changes. The data of
// before stays until there is new; with `every` it is read again after so many
// milliseconds while the tab is looked at. What may pass, as a lost node, is tried again.
export function useLoad(read, depends, every = 0) {
  const [state, setState] = useState({ data: undefined, error: null, loading: true });
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(depends);
  const shown = useRef(key);
  useEffect(() => {
    const stop = new AbortController();
    let timer, pause = every;
    const once = async () => {
      clearTimeout(timer);
      pause = every;
      try {
        const data = await read(stop.signal);
        if (!stop.signal.aborted) setState({ data, error: null, loading: false });
      } catch (error) {
        if (stop.signal.aborted) return;
        if (every || passes(error)) pause = Math.max(every, 2000, (error.retryAfter ?? 0) * 1000);
        setState((before) => ({ ...before, error, loading: false }));
      }
      if (pause && !stop.signal.aborted && !document.hidden) timer = setTimeout(once, pause);
    };
    const seen = () => { if (pause && !document.hidden) once(); };
    const changed = shown.current !== key;
    shown.current = key;
    setState((before) => ({ data: changed ? undefined : before.data, error: null, loading: true }));
    once();
    document.addEventListener("visibilitychange", seen);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, turn, every]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  return { ...state, reload };
}

const nothing = { pages: [], next: null, total: null, error: null, loading: true };

// listOf is a list of items that are there already; partial says that there may be others.
export const listOf = (items, { total = null, partial = false } = {}) => ({ ...nothing, pages: [items], total, partial, loading: false });

// usePages reads a list with next_cursor. Pages stay apart, so that one that is shown already is not looked at again when
// the next one comes. The way back to a list finds what it had. only selects items, and each
// changes one before it is shown.
export function usePages(path, query, { each = (item) => item, only = () => true, ...options } = {}) {
  return useParts([path, query], async (cursor, signal) => {
    let page, from = cursor;
    const pages = [];
    do { // a page may be empty while there are more; a few of those are passed over
      page = await get(path, { query: { ...query, cursor: from }, signal, ...options });
      pages.push(page.data.filter(only).map(each));
      from = page.pagination.next_cursor;
    } while (from && pages.at(-1).length === 0 && pages.length < 10);
    return { pages, next: from, total: page.pagination.total_count ?? null };
  });
}

// useParts reads a list part by part: read returns pages and where the next part begins.
export function useParts(depends, read) {
  const key = JSON.stringify(depends);
  const [state, setState] = useState(() => keptFor(key) ?? nothing);
  const reading = useRef(null);
  const more = async (from) => {
    reading.current?.abort();
    const stop = (reading.current = new AbortController());
    setState((s) => ({ ...s, error: null, loading: true }));
    try {
      const { pages, next, total } = await read(from, stop.signal);
      if (stop.signal.aborted) return;
      setState((s) => {
        const now = { ...nothing, pages: [...(from ? s.pages : []), ...pages.filter((p) => p.length > 0)], next, total, loading: false };
        keepFor(key, now);
        return now;
      });
    } catch (error) {
      if (!stop.signal.aborted) setState((s) => ({ ...s, error, loading: false }));
    }
  };
  useEffect(() => {
    const before = keptFor(key);
    setState(before ?? nothing);
    if (!before) more();
    return () => reading.current?.abort();
  }, [key]);
  return { ...state, more: () => more(state.next), reload: () => more() };
}

// useNow returns the node's time, again every so many milliseconds.
export function useNow(every = 1000) {
  const [now, setNow] = useState(nodeTime);
  useEffect(() => {
    const timer = setInterval(() => setNow(nodeTime()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
