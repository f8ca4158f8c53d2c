// The pieces that pages are made of.
import { html, useEffect, useRef, useState } from "./html.js";
import { exact, print } from "./json.js";
import { passes } from "./load.js";
import { link } from "./route.js";
import { mixed, unseen } from "./visible.js";
import { may } from "./session.js";
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

// The names of what has a page of its own.
const named = (address, name) => (may("checks:read") ? html`<a class="name" href=${address}>${name}</a>` : name);
export const Agent = ({ id }) => named(link("agents", id), html`<${Theirs} text=${id} />`);
export const Counterparty = ({ name }) => named(link("counterparties", name), html`<${Theirs} text=${name} />`);
export const Rule = ({ policy, id }) => (id ? named(link("policies", [policy, "rules", id]), html`<code>${id}</code>`) : null);
export const Policy = ({ id, version }) => html`<a class="name" href=${link("policies", id, { version })}>${id}</a>`;

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

// Sure is a button that asks before it does what cannot be undone.
export function Sure({ act, yes, children, title }) {
  const [asked, ask] = useState(false);
  return html`<button title=${title} class=${asked ? "deny" : ""} onBlur=${() => ask(false)} onClick=${() => { ask(!asked); if (asked) act(); }}>${asked ? yes : children}</button>`;
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

// Said is what was done a moment ago, read out to who does not see it.
export const Said = ({ text }) => html`<p class=${text ? "said shown" : "said"} role="status">${text}</p>`;
