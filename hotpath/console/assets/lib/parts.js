// The pieces that pages are made of.
import { html, useEffect, useRef, useState } from "./html.js";
import { passes } from "./api.js";
import { exact, print } from "./json.js";
import { link } from "./route.js";
import { may } from "./session.js";
import { inCurrency, listTime, localTime, ruleWords, spoken, zone } from "./words.js";
import { mixed, unseen } from "./visible.js";

// Where characters that show nothing are needed: emoji and keycaps, and joiners in the scripts that write with them.
const joined = "Arab Syrc Nkoo Mong Deva Beng Guru Gujr Orya Taml Telu Knda Mlym Sinh Khmr Mymr".split(" ").map((s) => `\\p{scx=${s}}`).join("");
const needed = new RegExp(["(?<=\\p{ExtPict})\\ufe0f", "(?<=[0-9#*])\\ufe0f(?=\\u20e3)",
  "(?<=\\p{ExtPict}[\\ufe0f\\u{1f3fb}-\\u{1f3ff}]?)\\u200d(?=\\p{ExtPict})", `(?<=[${joined}])[\\u200c\\u200d](?=[${joined}])`].join("|"), "uy");

// visible returns a text's pieces, in which such characters are shown as their numbers; a text
// may have lines and tabs, a name has none.
export function visible(text, lines = false) {
  const pieces = [];
  let from = 0;
  for (const [index, character] of unseen(text)) {
    needed.lastIndex = index;
    if (needed.test(text) || (lines && /[\t\n]/.test(character))) continue;
    if (index > from) pieces.push(text.slice(from, index));
    const name = `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    pieces.push(html`<span class="unseen" title="a character that is not shown">${name}</span>`);
    from = index + character.length;
  }
  if (from < text.length) pieces.push(text.slice(from));
  return pieces;
}

// Theirs is a text that an agent chose. It is a text node of its own direction, marked, and
// takes no more room than it is given.
export function Theirs({ text, block = false, lines = block }) {
  const [open, setOpen] = useState(false);
  const [long, setLong] = useState(false);
  const box = useRef(null);
  useEffect(() => setLong(box.current ? box.current.scrollHeight > box.current.clientHeight + 2 : false), [text]);
  if (text === null || text === undefined || text === "") return html`<span class="none">none</span>`;
  if (!block) return html`<bdi class="theirs" title="as the agent sent it">${visible(exact(text), lines)}${mark(mixed(exact(text)))}</bdi>`;
  return html`
    <figure class="quote">
      <figcaption>Written by the agent. Nothing of it is checked.</figcaption>
      <blockquote ref=${box} dir="auto" class=${open ? "open" : ""} tabindex=${long ? 0 : undefined}>${visible(exact(text), lines)}</blockquote>
      ${(long || open) && html`<button class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Show less" : "Show all of it"}</button>`}
    </figure>`;
}

// mark warns of a name whose letters are of several alphabets.
function mark(alphabets) {
  return alphabets.length > 0 && html` <span class="unseen" title="it mixes alphabets, whose letters may look alike">${alphabets.join(" + ")}</span>`;
}

// Amount shows an amount with all the digits that the API wrote; the commas between thousands are no characters of it. A line
// ends between them.
export function Amount({ value, currency, large = false, bare = false }) {
  const [, sign, digits, rest] = /^(-?)(\d*)(.*)$/s.exec(inCurrency(exact(value), currency));
  const groups = digits.replace(/\B(?=(\d{3})+$)/g, " ").split(" ");
  return html`<span class=${large ? "amount large" : "amount"}>${sign}${groups.slice(0, -1).map((group) => html`<span class="group">${group}</span><wbr />`)}${groups.at(-1)}${rest}${currency && !bare && html` <span class="currency">${currency}</span>`}</span>`;
}

// Time shows a time in the viewer's zone; its UTC is there on a tap.
export function Time({ at, dated }) {
  const [utc, setUTC] = useState(false);
  if (!at) return html`<span class="none">never</span>`;
  return html`<button class="time" title=${`${at} (UTC)`} aria-label=${`${localTime(at, dated)}, ${zone()}; ${at} in UTC`} onClick=${(e) => { e.preventDefault(); e.stopPropagation(); setUTC(!utc); }}>
    <time datetime=${at}>${utc ? at.replace("T", " ").replace("Z", " UTC") : localTime(at, dated)}</time></button>`;
}

// PlainTime is one within a list, where the year is in its title.
export const PlainTime = ({ at }) => html`<time datetime=${at} title=${`${localTime(at, true)}; ${at} (UTC)`}>${listTime(at)}</time>`;

// timeColumn is a column of a list, with the times of a member, and the word before them on a card.
export const timeColumn = (title, name, before = "", kind = "") =>
  [title, (of) => of[name] && html`${before && html`<i>${before} </i>`}<${PlainTime} at=${of[name]} />`, kind, "7.4rem"];

export const Badge = ({ of, children }) => html`<span class=${`badge ${of}`}>${children ?? spoken(of)}</span>`;

// Linked makes links of the ids of checks and approvals in a message of the API, and shows its amounts as all others.
export function Linked({ text }) {
  const pieces = (text ?? "").split(/((?:chk|apr)_[0-9a-f]{32}|\b\d{4,}(?:\.\d+)? [A-Z]{3}\b)/);
  return html`<bdi>${pieces.map((piece, i) => (i % 2 === 0 ? visible(piece)
    : /^\d/.test(piece) ? html`<${Amount} value=${piece.slice(0, -4)} currency=${piece.slice(-3)} />`
    : html`<a href=${link(piece.startsWith("chk") ? "checks" : "approvals", piece)}><${ID} id=${piece} /></a>`))}</bdi>`;
}

// ID is an identifier, shortened for the eye alone.
export const ID = ({ id }) => html`<code class="id" title=${id}><span class="sr">${id}</span><span aria-hidden="true">${id.length > 20 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id}</span></code>`;

// The names of what has a page of its own.
const named = (address, name) => (may("checks:read") ? html`<a class="name" href=${address}>${name}</a>` : name);
export const Agent = ({ id }) => named(link("agents", id), html`<${Theirs} text=${id} />`);
export const Counterparty = ({ name }) => named(link("counterparties", name), html`<${Theirs} text=${name} />`);
export const Rule = ({ policy, id }) => (id ? named(link("policies", [policy, "rules", id]), html`<code>${id}</code>`) : null);
export const Policy = ({ id, version, shown }) => html`<a class="name" href=${link("policies", id, { version })}>${shown ? html`version\u00a0${version}` : id}</a>`;

// Rules says what rules do.
export const Rules = ({ of, policy }) => html`<ul class="rules">${of.map((r) => html`<li><${Rule} policy=${policy} id=${r.rule_id} /> ${r.description && html`<span>${r.description}</span>`}${r.rule_type && html`<span class="hint">${ruleWords(r)}</span>`}</li>`)}</ul>`;

// Whose names the subjects of a counter.
const subjects = { agent_id: (id) => html`<${Agent} id=${id} />`, counterparty: (name) => html`<${Counterparty} name=${name} />`, api_key: (name) => html`<${Who} name=${name} />` };
export const Whose = ({ per }) => Object.entries(per ?? {}).map(([name, value]) => html`${subjects[name]?.(exact(value)) ?? html`<${Theirs} text=${exact(value)} />`} `);

// Who is a principal; without a name it is the id of a key. Nobody is an admin with the admin key.
export const Who = ({ of, name = of?.principal }) => (!name ? "an admin" : named(link("principals", name), /^key_[0-9a-f]{32}$/.test(name) ? html`<${ID} id=${name} />` : html`<bdi title=${name}>${visible(exact(of?.name || name))}</bdi>`));

// Decided lists what people decided; said is what an item says beside.
export const Decided = ({ of, said }) => of.length > 0 && html`<ul class="decisions">${of.map((d) => html`<li>${d.decision && html`<${Badge} of=${d.decision === "approve" ? "approved" : "denied"} /> `}<${Who} of=${d} /> <span class="hint"><bdi>${[d.email, d.groups?.join(", ")].filter(Boolean).join(" · ")}</bdi> <${Time} at=${d.at} />${said?.(d)}</span>${d.note && html`<p><bdi>${d.note}</bdi></p>`}</li>`)}</ul>`;

// Failure shows an error as the API words it. After one of a change (doing), which may have been
// made although no answer came, it says so.
export function Failure({ error, retry, doing = false }) {
  if (!error) return null;
  return html`
    <div class="failure" role="alert">
      <p><bdi>${visible(error.message)}</bdi></p>
      ${doing ? passes(error) && error.status !== 429 && html`<p>It is not known whether it was done. ${doing === true ? "Look before you do it again." : doing}</p>`
        : error.status === 0 && html`<p>What you see is as of the last answer.</p>`}
      ${(error.requestID || error.code) && html`<p class="hint">${[error.code, error.requestID].filter(Boolean).join(" · ")}</p>`}
      ${retry && passes(error) && html`<button onClick=${retry}>Try again</button>`}
    </div>`;
}

// Sure is a button that asks before it does what cannot be undone.
export function Sure({ act, yes, children, title }) {
  const [asked, ask] = useState(false);
  return html`<button title=${title} class=${asked ? "deny" : ""} onBlur=${() => ask(false)} onClick=${() => { ask(!asked); if (asked) act(); }}>${asked ? yes : children}</button>`;
}

export const Empty = ({ title, children }) => html`<div class="empty"><p class="title">${title}</p>${children && html`<p>${children}</p>`}</div>`;
export const Loading = () => html`<p class="loading" role="status">Loading…</p>`;

// Head is the title of a page, with the way to the page above it: an address and its name.
export const Head = ({ title, back, children }) => html`
  ${back && html`<p class="crumbs"><a class="back" href=${back[0]}>${back[1]}</a></p>`}
  <header class="head"><h1 tabindex="-1">${title}</h1>${children && html`<div class="tools">${children}</div>`}</header>`;

// Awaited is the page of what is being read, or of why it is not there.
export const Awaited = ({ title, of: { error, reload } }) => html`${title && html`<${Head} title=${title} />`}${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}`;

// Facts is a list of names and values; absent values are left out.
export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "")
  .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// Sent is what an agent sent beside the action, apart from what the service says: its names are
// the agent's, too, and may read like the service's.
function Sent({ metadata }) {
  const of = Object.entries(metadata ?? {});
  const text = (value) => (typeof value === "string" ? value : print(value).replace(/\n\s*/g, " "));
  return of.length > 0 && html`<figure class="quote"><figcaption>Sent by the agent, names and values. Rules may read it; nobody has checked it.</figcaption>
    <${Facts} of=${of.map(([name, value]) => [html`<${Theirs} text=${name} />`, html`<${Theirs} text=${text(value)} />`])} /></figure>`;
}

const theirs = (text) => text && html`<${Theirs} text=${text} />`;

// Asked is an action but for its amount: why, by whom and by which version it was judged, and what the agent sent beside.
export const Asked = ({ action: a, by, policy, version, more = [] }) => html`
  ${a.reason_text && html`<${Theirs} text=${a.reason_text} block />`}
  <${Facts} of=${[
    ["Agent", html`<${Agent} id=${a.agent_id} />`], ["Asked by", html`<${Who} name=${by} />`], ...more,
    ["Policy", html`<${Policy} id=${policy} />, <${Policy} id=${policy} version=${version} shown />`],
    ["Paid by", theirs(a.payment_method)], ["Merchant or vendor", theirs(a.merchant_or_vendor)], ["Idempotency key", theirs(a.idempotency_key)],
  ]} />
  <${Sent} metadata=${a.metadata} />`;

// Bar shows how full something is.
export const Bar = ({ full }) => html`<span class="bar" role="img" aria-label=${`${Math.floor(full * 100)} % used`}><span class=${full >= 1 ? "full" : full >= 0.8 ? "near" : ""} style=${{ width: `${Math.min(100, full * 100)}%` }}></span></span>`;

// WideTable has a heading in each row, and cells that are [what, class]; it scrolls where it is wider than the screen.
export const WideTable = ({ label, caption, head, rows, class: kind }) => html`<div class="wide-table" tabindex="0" role="region" aria-label=${label}><table class=${kind}>${caption && html`<caption class="hint">${caption}</caption>`}
  <thead><tr>${head.map((text) => html`<th scope="col">${text}</th>`)}</tr></thead><tbody>${rows.map(([name, ...cells]) => html`<tr><th scope="row">${name}</th>${cells.map(([text, as]) => html`<td class=${as || undefined}>${text}</td>`)}</tr>`)}</tbody></table></div>`;

// Field is a labelled control.
export function Field({ label, hint, children, wide }) {
  return html`<label class=${wide ? "field wide" : "field"}><span class="label">${label}</span>${children}${hint && html`<span class="hint">${hint}</span>`}</label>`;
}

// useAct runs what changes something. It has whether that is under way, and why it failed.
export function useAct() {
  const [state, setState] = useState({ busy: false, failure: null });
  const act = async (change) => {
    setState({ busy: true, failure: null });
    const failure = await Promise.resolve().then(change).then(() => null, (e) => e);
    setState({ busy: false, failure });
  };
  return { ...state, act };
}

// entries are the parts of a text with commas.
export const entries = (text) => text.split(",").map((s) => s.trim()).filter(Boolean);

const kinds = { list: entries, number: Number, "datetime-local": (text) => new Date(text).toISOString() };
const choice = (o) => (Array.isArray(o) ? o : [o, o]);

// Form asks for fields. Each is [name, label, attributes of its control]; among these `of` has the choices, `hint` is a line
// beneath, and `kind` says what becomes of the text. send gets what was given, and a key that stays until something is edited.
export function Form({ fields, send, button, label, doing = true, danger, plain, children }) {
  const { act, busy, failure } = useAct();
  const key = useRef("");
  const submit = (e) => {
    e.preventDefault();
    const form = e.currentTarget;
    key.current ||= crypto.getRandomValues(new Uint32Array(4)).join("-");
    const given = {};
    for (const [name, , { kind, type } = {}] of fields) {
      const text = form.elements[name].value.trim();
      if (text) given[name] = kinds[kind ?? type]?.(text) ?? text;
    }
    act(() => send(given, key.current, form));
  };
  const control = (name, { of, value: begins, hint: _, kind: __, wide: ___, ...more }) => (of ? html`<select name=${name} ...${more}>${of.map(choice).map(([value, words]) => html`<option value=${value} selected=${value === begins}>${words}</option>`)}</select>`
    : html`<input name=${name} defaultValue=${begins} autocomplete="off" spellcheck="false" ...${more} />`);
  return html`<form aria-label=${label} onSubmit=${submit} onInput=${() => { key.current = ""; }}>
    <div class="try">${fields.map(([name, title, attributes = {}]) => html`<${Field} label=${title} hint=${attributes.hint} wide=${attributes.wide}>${control(name, attributes)}<//>`)}</div>
    ${children}<${Failure} error=${failure} doing=${doing} />
    <div class="buttons"><button class=${danger ? "deny" : plain ? "" : "primary"} disabled=${busy}>${button}</button></div></form>`;
}

// Said is what was done a moment ago, read out to who does not see it.
export const Said = ({ text }) => html`<p class=${text ? "said shown" : "said"} role="status">${text}</p>`;

// wide reports whether a list is a table: see the style sheet.
export const wide = () => matchMedia("(min-width: 900px)").matches;

const widths = (columns) => columns.map(([, , , width]) => width ?? "minmax(0, 1fr)").join(" ");

// Table shows the pages of a list. Each column is [title, cell, kind, width]: cell makes what is shown of an item. On a
// card "what" and "aside" are the first line and "line" the second, in this order, and "number" is aligned to the right in a table;
// what ends with "far" is not in a table on less than 1400 pixels.
// to makes the address of an item; with body an item opens instead. A page that is shown is not looked at again.
export function Table({ list, columns, to, body, label, empty, current, cards = false }) {
  const end = useRef(null);
  const { loading, next, more, error } = list;
  useEffect(() => {
    if (!end.current || !next || loading || error) return undefined;
    const seen = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && more(), { rootMargin: "600px" });
    seen.observe(end.current);
    return () => seen.disconnect();
  }, [next, loading, error]);
  const parts = list.pages.flatMap((page) => Array.from({ length: Math.ceil(page.length / 100) }, (_, i) => [page, i * 100]));
  const count = list.pages.reduce((n, page) => n + page.length, 0);
  const row = (item) => html`<${Row} key=${to?.(item) ?? item.id ?? item.freeze_id ?? item.key_id ?? item.session_id} item=${item} columns=${columns} address=${to?.(item)} body=${body} current=${current} />`;
  return html`
    <div class=${cards ? "cards" : "table"} style=${`--columns: ${widths(columns)}; --few: ${widths(columns.filter(([, , kind = ""]) => !kind.endsWith("far")))}`}>
      ${!cards && count > 0 && html`<p class="columns" aria-hidden="true">${columns.map(([title, , kind]) => html`<span class=${kind}>${title}</span>`)}</p>`}
      ${parts.map(([page, from], i) => html`<${Part} key=${i} page=${page} from=${from} row=${row} current=${current} label=${i ? `${label}, part ${i + 1}` : label} />`)}
    </div>
    ${count === 0 && !loading && !error && !next && empty}
    <${Failure} error=${error} retry=${count ? more : list.reload} />
    ${loading && html`<${Loading} />`}
    ${next && !loading && html`<p class="more" ref=${end}><button onClick=${more}>Show more</button></p>`}
    ${count > 0 && html`<p class="hint total" role="status">${list.total === null || list.total === undefined ? `${count} shown${next || list.partial ? "" : ", which are all"}` : `${count} of ${list.total}`}</p>`}`;
}

// Part is a list of up to 100 items of a page, so that those that are far from the screen cost
// nothing, however many there are. It keeps its elements while its items are the same.
function Part({ page, from, row, label, current }) {
  const kept = useRef({});
  if (kept.current.page !== page || kept.current.current !== current) kept.current = { page, current, rows: page.slice(from, from + 100).map(row) };
  const { rows } = kept.current;
  return html`<ul class="rows" aria-label=${label} style=${`--rows: ${rows.length}`}>${rows}</ul>`;
}

function Row({ item, columns, address, body, current }) {
  const [shown, show] = useState(false);
  const opens = (inner) => (body ? html`<button class="opens" aria-expanded=${shown} onClick=${() => show(!shown)}>${inner}</button>`
    : address ? html`<a class="opens" href=${address} aria-current=${address === current ? "true" : undefined}>${inner}</a>` : inner);
  const cell = ([, cellOf, kind = ""]) => html`<span class=${`cell ${kind}`}>${kind.startsWith("what") ? opens(cellOf(item)) : cellOf(item)}</span>`;
  const of = (...kinds) => columns.filter(([, , kind = ""]) => kinds.includes(kind.split(" ")[0])).map(cell);
  return html`<li class="row">${of("what", "aside")}<span class="to">${of("line")}</span><span class="by">${of("", "number", "far")}</span>${shown && html`<div class="body">${body(item)}</div>`}</li>`;
}

// A day in the viewer's zone, as a control has it, and the instants of its beginning and its end.
const dayOf = (instant) => { const at = new Date(instant); return Number.isNaN(at.getTime()) ? "" : `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")}`; };
const begins = (day) => new Date(`${day}T00:00:00`).toISOString();
const ends = (day) => { const at = new Date(`${day}T00:00:00`); at.setDate(at.getDate() + 1); return new Date(at.getTime() - 1).toISOString(); };
const ago = (days) => { const at = new Date(); at.setDate(at.getDate() - days); return dayOf(at); };
const ranges = [["Today", 0, 0], ["Yesterday", 1, 1], ["Last 7 days", 6, 0]];

// Filters is a form of filters that are part of the address. Each is [name, label, options], where options are words, "day"
// for a day in the viewer's zone, or nothing for text. Where there is room they are in sight. Names in the list complete the text.
export function Filters({ of, values, change, list, keep = {} }) {
  const instants = (form) => Object.fromEntries(Object.entries(form).map(([name, value]) => [name, !value || of.find(([n]) => n === name)[2] !== "day" ? value : name === "from" ? begins(value) : ends(value)]));
  const submit = (e) => { e.preventDefault(); if (e.submitter && !wide()) e.currentTarget.parentElement.open = false; change({ ...instants(Object.fromEntries(new FormData(e.currentTarget))), ...keep }); };
  const given = of.filter(([name]) => values[name]);
  const names = (name) => [...new Set(list?.pages.flat().slice(0, 500).map((item) => item[name] ?? item.action?.[name]).filter((value) => typeof value === "string"))].sort();
  return html`
    <details class="filters" open=${wide()}>
      <summary>Filters${given.map(([name, label, options]) => html` <span class="given">${label}: <bdi>${options === "day" ? localTime(values[name]) : visible(values[name])}</bdi></span>`)}</summary>
      <form onSubmit=${submit} key=${JSON.stringify(values)}>
        ${of.map(([name, label, options]) => html`
          <${Field} label=${label}>${options === "day" ? html`<input type="date" name=${name} defaultValue=${values[name] ? dayOf(values[name]) : ""} />` : options
            ? html`<select name=${name} onChange=${(e) => e.currentTarget.form.requestSubmit()}><option value="">any</option>${options.map((o) => html`<option value=${o} selected=${values[name] === o}>${spoken(o)}</option>`)}</select>`
            : html`<input name=${name} defaultValue=${values[name] ?? ""} list=${`names-${name}`} inputmode=${name.startsWith("amount") ? "decimal" : undefined} autocomplete="off" spellcheck="false" /><datalist id=${`names-${name}`}>${names(name).map((text) => html`<option value=${text} />`)}</datalist>`}<//>`)}
        <div class="buttons">${of.some(([, , options]) => options === "day") && ranges.map(([title, from, to]) => html`<button type="button" onClick=${() => change({ ...values, ...keep, from: begins(ago(from)), to: ends(ago(to)) })}>${title}</button>`)}<button class="primary">Show</button>${given.length > 0 && html`<button type="button" onClick=${() => change(keep)}>Show everything</button>`}</div>
      </form>
    </details>`;
}

// Tabs are links of which one is where the page is: [title, address, whether it is shown].
export const Tabs = ({ of, label }) => html`<div class="tabs" role="group" aria-label=${label}>${of.map(([title, address, shown]) => html`<a href=${address} aria-current=${shown ? "true" : undefined}>${title}</a>`)}</div>`;
