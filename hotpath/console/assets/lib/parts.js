// The pieces that pages are made of.
import { html, useEffect, useRef, useState } from "./html.js";
import { exact, print } from "./json.js";
import { passes } from "./load.js";
import { link } from "./route.js";
import { mixed, unseen } from "./visible.js";
import { inCurrency, localTime, zone } from "./words.js";

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

// Amount shows an amount with all the digits that the API wrote; thousands are set apart by space
// that is no character. A line ends between them.
export function Amount({ value, currency, large = false }) {
  const [, sign, digits, rest] = /^(-?)(\d*)(.*)$/s.exec(inCurrency(exact(value), currency));
  const groups = digits.replace(/\B(?=(\d{3})+$)/g, " ").split(" ");
  return html`<span class=${large ? "amount large" : "amount"}>${sign}${groups.slice(0, -1).map((group) => html`<span class="group">${group}</span><wbr />`)}${groups.at(-1)}${rest}${currency && html` <span class="currency">${currency}</span>`}</span>`;
}

// Time shows a time in the viewer's zone; its UTC is there on a tap.
export function Time({ at, now }) {
  const [utc, setUTC] = useState(false);
  if (!at) return html`<span class="none">never</span>`;
  return html`<button class="time" title=${`${at} (UTC)`} aria-label=${`${localTime(at, now)}, ${zone()}; ${at} in UTC`} onClick=${(e) => { e.preventDefault(); e.stopPropagation(); setUTC(!utc); }}>
    <time datetime=${at}>${utc ? at.replace("T", " ").replace("Z", " UTC") : localTime(at, now)}</time></button>`;
}

// PlainTime is one within a link.
export const PlainTime = ({ at }) => html`<time datetime=${at} title=${`${at} (UTC)`}>${localTime(at)}</time>`;

export const Badge = ({ of, children }) => html`<span class=${`badge ${of}`}>${children ?? of}</span>`;

// Linked makes links of the ids of checks and approvals in a message of the API.
export function Linked({ text }) {
  const pieces = (text ?? "").split(/((?:chk|apr)_[0-9a-f]{32})/);
  return html`<bdi>${pieces.map((piece, i) => (i % 2 === 0 ? visible(piece)
    : html`<a href=${link(piece.startsWith("chk") ? "checks" : "approvals", piece)}><${ID} id=${piece} /></a>`))}</bdi>`;
}

// ID is an identifier, shortened for the eye alone.
export const ID = ({ id }) => html`<code class="id" title=${id}><span class="sr">${id}</span><span aria-hidden="true">${id.length > 20 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id}</span></code>`;

// Who is a principal; without a name it is the id of a key.
export const Who = ({ name }) => (/^key_[0-9a-f]{32}$/.test(name) ? html`<${ID} id=${name} />` : html`<bdi>${visible(exact(name))}</bdi>`);

// Decided lists decisions of people.
export const Decided = ({ of }) => html`<ul class="decisions">${of.map((d) => html`<li><${Badge} of=${d.decision === "approve" ? "approved" : "denied"} /> <bdi title=${d.principal}>${d.name || d.principal}</bdi>${d.email && html` <span class="hint"><bdi>${d.email}</bdi></span>`}${d.groups && html` <span class="hint"><bdi>${d.groups.join(", ")}</bdi></span>`} <span class="hint"><${Time} at=${d.at} /></span>${d.note && html`<p><bdi>${d.note}</bdi></p>`}</li>`)}</ul>`;

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

export const Empty = ({ title, children }) => html`<div class="empty"><p class="title">${title}</p>${children && html`<p>${children}</p>`}</div>`;
export const Loading = () => html`<p class="loading" role="status">Reading…</p>`;
export const Head = ({ title, children }) => html`<header class="head"><h1 tabindex="-1">${title}</h1>${children && html`<div class="tools">${children}</div>`}</header>`;

// Facts is a list of names and values; absent values are left out.
export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "")
  .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// Sent is what an agent sent beside the action, apart from what the service says: its names are
// the agent's, too, and may read like the service's.
export function Sent({ metadata }) {
  const of = Object.entries(metadata ?? {});
  const text = (value) => (typeof value === "string" ? value : print(value).replace(/\n\s*/g, " "));
  return of.length > 0 && html`<figure class="quote"><figcaption>Sent by the agent, names and values. Rules may read it; nobody has checked it.</figcaption>
    <${Facts} of=${of.map(([name, value]) => [html`<${Theirs} text=${name} />`, html`<${Theirs} text=${text(value)} />`])} /></figure>`;
}

// Field is a labelled control.
export function Field({ label, hint, children, wide }) {
  return html`<label class=${wide ? "field wide" : "field"}><span class="label">${label}</span>${children}${hint && html`<span class="hint">${hint}</span>`}</label>`;
}

// A day in the viewer's zone, as a control has it, and the instants of its beginning and its end.
const dayOf = (instant) => { const at = new Date(instant); return Number.isNaN(at.getTime()) ? "" : `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")}`; };
const begins = (day) => new Date(`${day}T00:00:00`).toISOString();
const ends = (day) => { const at = new Date(`${day}T00:00:00`); at.setDate(at.getDate() + 1); return new Date(at.getTime() - 1).toISOString(); };
const ago = (days) => { const at = new Date(); at.setDate(at.getDate() - days); return dayOf(at); };
const ranges = [["Today", 0, 0], ["Yesterday", 1, 1], ["Last 7 days", 6, 0]];

// wide reports whether a list is a table: see the style sheet.
export const wide = () => matchMedia("(min-width: 900px)").matches;

// Filters is a form of filters that are part of the address. Each is [name, label, options, "day" for
// one in the viewer's zone, or nothing for text]. Where there is room they are in sight.
export function Filters({ of, values, change }) {
  const instants = (form) => Object.fromEntries(Object.entries(form).map(([name, value]) => [name, !value || of.find(([n]) => n === name)[2] !== "day" ? value : name === "from" ? begins(value) : ends(value)]));
  const submit = (e) => { e.preventDefault(); if (e.submitter && !wide()) e.currentTarget.parentElement.open = false; change(instants(Object.fromEntries(new FormData(e.currentTarget)))); };
  const given = of.filter(([name]) => values[name]);
  return html`
    <details class="filters" open=${wide()}>
      <summary>Filters${given.map(([name, label, options]) => html` <span class="given">${label}: <bdi>${options === "day" ? localTime(values[name]) : visible(values[name])}</bdi></span>`)}</summary>
      <form onSubmit=${submit} key=${JSON.stringify(values)}>
        ${of.map(([name, label, options, hint]) => html`
          <${Field} label=${label} hint=${hint}>${options === "day" ? html`<input type="date" name=${name} value=${values[name] ? dayOf(values[name]) : ""} />` : options
            ? html`<select name=${name} onChange=${(e) => e.currentTarget.form.requestSubmit()}><option value="">any</option>${options.map((o) => html`<option selected=${values[name] === o}>${o}</option>`)}</select>`
            : html`<input name=${name} value=${values[name] ?? ""} autocomplete="off" spellcheck="false" />`}<//>`)}
        <div class="buttons">${of.some(([, , options]) => options === "day") && ranges.map(([title, from, to]) => html`<button type="button" onClick=${() => change({ ...values, from: begins(ago(from)), to: ends(ago(to)) })}>${title}</button>`)}<button class="primary">Show</button>${given.length > 0 && html`<button type="button" onClick=${() => change({})}>Show everything</button>`}</div>
      </form>
    </details>`;
}

// Pages shows pages of a list. A page that is shown is not looked at again.
export function Pages({ list, row, empty, label, columns }) {
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
  return html`
    ${columns && count > 0 && html`<p class="columns" aria-hidden="true">${columns.map((title) => html`<span>${title}</span>`)}</p>`}
    ${parts.map(([page, from], i) => html`<${Part} key=${i} page=${page} from=${from} row=${row} label=${i ? `${label}, part ${i + 1}` : label} />`)}
    ${count === 0 && !loading && !error && !next && empty}
    <${Failure} error=${error} retry=${count ? more : list.reload} />
    ${loading && html`<${Loading} />`}
    ${next && !loading && html`<p class="more" ref=${end}><button onClick=${more}>Show more</button></p>`}
    ${count > 0 && html`<p class="hint total" role="status">${list.total === null || list.total === undefined ? `${count} shown${next ? "" : ", which are all"}` : `${count} of ${list.total}`}</p>`}`;
}

// Part is a list of up to 100 items of a page, so that those that are far from the screen cost
// nothing, however many there are. It keeps its elements while its items are the same.
function Part({ page, from, row, label }) {
  const kept = useRef({});
  if (kept.current.page !== page) kept.current = { page, rows: page.slice(from, from + 100).map(row) };
  const { rows } = kept.current;
  return html`<ul class="rows" aria-label=${label} style=${`--rows: ${rows.length}`}>${rows}</ul>`;
}

// Said is what was done a moment ago, read out to who does not see it.
export const Said = ({ text }) => html`<p class=${text ? "said shown" : "said"} role="status">${text}</p>`;
