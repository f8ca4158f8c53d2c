// Reading from the API: once, again and again, and page by page.
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { get, nodeTime } from "./api.js";
import { keepFor, keptFor } from "./route.js";

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

// listOf is a list of items that are there already.
export const listOf = (items, total = null) => ({ ...nothing, pages: [items], total, loading: false });

// usePages reads a list with next_cursor. Pages stay apart, so that one that is shown already is not looked at again when
// the next one comes. The way back to a list finds what it had. each changes an item before it is shown.
export function usePages(path, query, { each = (item) => item, ...options } = {}) {
  return useParts([path, query], async (cursor, signal) => {
    let page, from = cursor;
    const pages = [];
    do { // a page may be empty while there are more; a few of those are passed over
      page = await get(path, { query: { ...query, cursor: from }, signal, ...options });
      pages.push(page.data.map(each));
      from = page.pagination.next_cursor;
    } while (from && page.data.length === 0 && pages.length < 10);
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
