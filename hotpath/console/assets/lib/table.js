// Lists: the same columns as a table on a desk and as cards on a phone, with filters that are part of the address.
import { html, useEffect, useRef, useState } from "./html.js";
import { Failure, Field, Loading, visible } from "./parts.js";
import { localTime } from "./words.js";

// wide reports whether a list is a table: see the style sheet.
export const wide = () => matchMedia("(min-width: 900px)").matches;

// Table shows the pages of a list. Each column is [title, cell, kind, width]: cell makes what is shown of an item. On a
// card "what" and "aside" are the first line and "line" the second, in this order, and "number" is aligned to the right in a table.
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
  const row = (item) => html`<${Row} key=${to?.(item) ?? item.id ?? item.freeze_id} item=${item} columns=${columns} address=${to?.(item)} body=${body} current=${current} />`;
  return html`
    <div class=${cards ? "cards" : "table"} style=${`--columns: ${columns.map(([, , , width]) => width ?? "minmax(0, 1fr)").join(" ")}`}>
      ${!cards && count > 0 && html`<p class="columns" aria-hidden="true">${columns.map(([title, , kind]) => html`<span class=${kind}>${title}</span>`)}</p>`}
      ${parts.map(([page, from], i) => html`<${Part} key=${i} page=${page} from=${from} row=${row} current=${current} label=${i ? `${label}, part ${i + 1}` : label} />`)}
    </div>
    ${count === 0 && !loading && !error && !next && empty}
    <${Failure} error=${error} retry=${count ? more : list.reload} />
    ${loading && html`<${Loading} />`}
    ${next && !loading && html`<p class="more" ref=${end}><button onClick=${more}>Show more</button></p>`}
    ${count > 0 && html`<p class="hint total" role="status">${list.total === null || list.total === undefined ? `${count} shown${next ? "" : ", which are all"}` : `${count} of ${list.total}`}</p>`}`;
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
  return html`<li class="row">${of("what", "aside")}<span class="to">${of("line")}</span><span class="by">${of("", "number")}</span>${shown && html`<div class="body">${body(item)}</div>`}</li>`;
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
          <${Field} label=${label}>${options === "day" ? html`<input type="date" name=${name} value=${values[name] ? dayOf(values[name]) : ""} />` : options
            ? html`<select name=${name} onChange=${(e) => e.currentTarget.form.requestSubmit()}><option value="">any</option>${options.map((o) => html`<option selected=${values[name] === o}>${o}</option>`)}</select>`
            : html`<input name=${name} value=${values[name] ?? ""} list=${`names-${name}`} inputmode=${name.startsWith("amount") ? "decimal" : undefined} autocomplete="off" spellcheck="false" /><datalist id=${`names-${name}`}>${names(name).map((text) => html`<option value=${text} />`)}</datalist>`}<//>`)}
        <div class="buttons">${of.some(([, , options]) => options === "day") && ranges.map(([title, from, to]) => html`<button type="button" onClick=${() => change({ ...values, ...keep, from: begins(ago(from)), to: ends(ago(to)) })}>${title}</button>`)}<button class="primary">Show</button>${given.length > 0 && html`<button type="button" onClick=${() => change(keep)}>Show everything</button>`}</div>
      </form>
    </details>`;
}

// Tabs are links of which one is where the page is: [title, address, whether it is shown].
export const Tabs = ({ of, label }) => html`<div class="tabs" role="group" aria-label=${label}>${of.map(([title, address, shown]) => html`<a href=${address} aria-current=${shown ? "true" : undefined}>${title}</a>`)}</div>`;
