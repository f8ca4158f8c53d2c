// Where the page is: #/page/part?name=value. It is in the fragment, which no server sees.
import { useEffect, useState } from "./html.js";

function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { page: parts[0] ?? "", part: parts[1] ?? "", rest: parts.slice(2), query: Object.fromEntries(new URLSearchParams(query)) };
}

// link returns the address of a page within the console.
export function link(page, part, query) {
  const given = Object.entries(query ?? {}).filter(([, v]) => v !== undefined && v !== null && v !== "");
  const path = [page, ...(Array.isArray(part) ? part : [part])].filter((p) => p !== undefined && p !== "").map((p) => encodeURIComponent(p)).join("/");
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

// Each entry of the tab's history has a number, by which what was read for it is kept, for the way back to it.
const state = { entry: 0, last: 0, address: "" };
const kept = new Map();

// keepFor keeps a value, one of the last 30, for the entry that is shown; keptFor returns it when the way back leads there.
export function keepFor(name, value) {
  kept.set(`${state.entry} ${name}`, value);
  if (kept.size > 30) kept.delete(kept.keys().next().value);
}
export const keptFor = (name) => kept.get(`${state.entry} ${name}`);

// arrive notes the entry that is shown now. It returns the address that the way back came from, "" on any other way.
function arrive() {
  const from = state.address;
  const number = history.state?.entry;
  const back = number !== undefined && number < state.entry;
  if (number === undefined) history.replaceState({ entry: (state.last = Math.max(state.last, Date.now()) + 1) }, "");
  [state.entry, state.address] = [history.state.entry, location.hash];
  return back ? from : "";
}

// toRow shows the row that the way back came from, when there is one.
export function toRow(from) {
  const row = from && [...document.querySelectorAll("a.opens, main a")].find((a) => a.getAttribute("href") === from);
  if (!row) return false;
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
  return true;
}

// go changes the page. With replace the way back leads past it.
export function go(address, replace = false) {
  if (replace) {
    history.replaceState(history.state, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

// useLeaving asks before a link leads away from what is not stored, or the tab closes.
export function useLeaving(unsaved) {
  useEffect(() => {
    if (!unsaved) return undefined;
    const follow = (e) => {
      const a = e.target.closest?.("a[href^='#']");
      if (a && !confirm("The text is not stored. This tab keeps it until you come back. Leave it?")) e.preventDefault();
    };
    const close = (e) => e.preventDefault();
    document.addEventListener("click", follow, true);
    addEventListener("beforeunload", close);
    return () => {
      document.removeEventListener("click", follow, true);
      removeEventListener("beforeunload", close);
    };
  }, [unsaved]);
}

export function useRoute() {
  const [route, setRoute] = useState(() => ({ ...parseRoute(location.hash), from: arrive() }));
  useEffect(() => {
    history.scrollRestoration = "manual";
    const changed = () => { const from = arrive(); setRoute({ ...parseRoute(location.hash), from }); };
    addEventListener("hashchange", changed);
    changed(); // effects of what is within come first: a link that signs in has gone on by now
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
