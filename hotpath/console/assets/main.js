// The frame: who is signed in, which pages there are, and the one that is shown.
import { html, render, useEffect, useRef, useState } from "./lib/html.js";
import { post, useNow } from "./lib/api.js";
import { go, link, toRow, useRoute } from "./lib/route.js";
import { forget, may, onSession, session, signOut } from "./lib/session.js";
import { span } from "./lib/words.js";
import { Empty } from "./lib/parts.js";
import { useWaiting } from "./pages/approvals.js";
import { Frozen, useFrozen } from "./pages/freezes.js";
import { keepWanted, SignIn } from "./pages/sign-in.js";
import { pages } from "./pages.js";

function Console() {
  const [, changed] = useState(0);
  useEffect(() => onSession(() => changed((n) => n + 1)), []);
  const route = useRoute();
  const { key, adminKey } = session();
  if (route.page === "sign-in" || (!key && !adminKey)) return html`<${SignIn} route=${route} />`;
  return html`<${Frame} route=${route} />`;
}

function Frame({ route }) {
  const open = pages.filter((page) => may(page.scope));
  const page = route.page ? pages.find((p) => p.path === route.page) : open[0];
  const waiting = useWaiting(may("approvals:decide"));
  const frozen = useFrozen();
  const main = useRef(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${waiting.count ? `(${waiting.count}) ` : ""}${page ? page.title : "Not found"} · spendgate`;
  }, [page, waiting.count]);
  useEffect(() => { // who does not see the page hears where it led; the way back leads to the row
    if (!toRow(route.from)) {
      if (!first.current) [...main.current.querySelectorAll("h1")].find((h) => h.offsetParent)?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [route.page, route.part, route.rest.join("/")]);
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>To the content</a>
    <${Navigation} open=${open} page=${page} waiting=${waiting.count} />
    <main id="main" tabindex="-1" ref=${main} class=${page?.path ?? ""}>
      <${Ending} /><${Frozen} frozen=${frozen} />
      ${!page && html`<${Empty} title="There is no such page.">It may be of another version, or misspelt. <a href="#/">Go to the first page</a>.<//>`}
      ${page && !may(page.scope) && html`<${Empty} title="Your key does not open this page.">${page.scope === "admin"
        ? "It needs the admin key: sign out, and in again with both." : `It needs the scope ${page.scope}, which an admin can give.`}<//>`}
      ${page && may(page.scope) && html`<${page.show} key=${page.path} route=${route} waiting=${waiting} frozen=${frozen} />`}
    </main>`;
}

// Ending says that the session, or the key, ends in the next ten minutes.
function Ending() {
  const now = useNow(10000);
  const { key, cookie } = session();
  const left = Date.parse(key?.expires_at ?? "") - now;
  return left < 600000 && html`<aside class="once" aria-label="Your session" role="status">${cookie ? "Your session ends" : "Your key expires"} ${left > 0 ? `in ${span(left)}` : "now"}. ${cookie ? html`<a href="/console/sign-in" onClick=${() => { keepWanted(); forget(); }}>Sign in again</a> now, before you begin something long.` : "An admin makes another one."}</aside>`;
}

function Navigation({ open, page, waiting }) {
  const menu = useRef(null);
  const close = () => menu.current?.removeAttribute("open");
  const { key, cookie } = session();
  const [stays, setStays] = useState(false);
  const end = async () => {
    try {
      if (cookie) await post("/console/sign-out");
    } catch {
      return setStays(true); // the browser's session is still there
    }
    signOut();
    go("#/", true);
  };
  const groups = [...new Set(open.map((p) => p.group))].filter(Boolean);
  const links = groups.map((group) => html`<p class="hint">${group}</p><ul>${open.filter((p) => p.group === group).map((p) => html`
    <li><a href=${link(p.path)} aria-current=${p === page || p.path === page?.within ? "page" : undefined} onClick=${close}>${p.title}${p.path === "approvals" && waiting > 0
      && html` <span class="count"><span class="sr">, </span>${waiting}<span class="sr"> waiting for you</span></span>`}</a></li>`)}</ul>`);
  const who = !key ? "admin" : cookie ? key.name || key.principal : key.principal ?? key.name;
  const leave = html`<div class="who"><span class="hint">Signed in as</span> <bdi title=${key?.principal}>${who}</bdi>${key?.email && html` <span class="hint"><bdi>${key.email}</bdi></span>`}${key?.role && html` <span class="hint">${key.role}</span>`}
    <button class="plain" onClick=${end}>Sign out</button>${stays && html` <span class="hint" role="alert">The node did not sign you out: try again.</span>`}</div>`;
  return html`
    <header class="side">
      <a class="brand" href="#/"><span class="mark" aria-hidden="true"></span>spendgate</a>
      <details class="menu" ref=${menu} onKeyDown=${(e) => e.key === "Escape" && close()}>
        <summary>Menu${waiting > 0 && page?.path !== "approvals" && html` <span class="count">${waiting}<span class="sr"> waiting for you</span></span>`}</summary>
        <nav aria-label="Pages">${links}${leave}</nav>
      </details>
      <nav class="wide" aria-label="Pages">${links}${leave}</nav>
    </header>`;
}

render(html`<${Console} />`, Object.assign(document.getElementById("app"), { textContent: "" }));
