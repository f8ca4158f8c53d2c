// Where the page is: #/page/part?name=value. It is in the fragment, which no server sees.
import { useEffect, useState } from "./html.js";

export function parseRoute(hash) {
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

// go changes the page. With replace the way back leads past it.
export function go(address, replace = false) {
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

export function useRoute() {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", changed);
    changed(); // effects of what is within come first: a link that signs in has gone on by now
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
