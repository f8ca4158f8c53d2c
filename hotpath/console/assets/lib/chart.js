// Decisions over time, as stacked bars and as a table.
import { html } from "./html.js";
import { grouped, localTime, shortTime } from "./words.js";
import { WideTable } from "./parts.js";

const kinds = [["allow", "allowed"], ["escalate", "escalated"], ["block", "blocked"]];

// top returns the end of the axis: 1, 2 or 5 times a power of ten.
function top(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
}

// Chart shows statistics. to makes the address of the checks of a time and a decision.
export function Chart({ stats, to }) {
  const buckets = stats.data;
  const of = (b, [kind]) => Number(b[kind] ?? 0);
  const total = (b) => kinds.reduce((n, kind) => n + of(b, kind), 0);
  const most = top(Math.max(2, ...buckets.map(total)));
  const width = 100 / Math.max(1, buckets.length);
  const length = buckets.length > 1 ? Date.parse(buckets[1].start) - Date.parse(buckets[0].start) : 60e3;
  const checks = (b, decision) => to({ from: b.start, to: new Date(Date.parse(b.start) + length - 1).toISOString(), decision });
  const all = (decision) => to({ from: buckets[0].start, to: new Date(Date.parse(buckets.at(-1).start) + length - 1).toISOString(), decision });
  const words = (b) => `${localTime(b.start, true)}: ${kinds.map((kind) => `${grouped(of(b, kind))} ${kind[1]}`).join(", ")}`;
  return html`
    <figure class="chart">
      <div class="plot" aria-hidden="true"><p class="scale">${[most, most / 2, 0].map((n) => html`<span>${grouped(n)}</span>`)}</p>
      <svg viewBox="0 0 100 40" preserveAspectRatio="none">${[0, 20].map((y) => html`<line x1="0" x2="100" y1=${y} y2=${y} />`)}${buckets.map((b, i) => {
        let y = 40;
        return html`<a href=${checks(b)} tabindex="-1"><title>${words(b)}</title><rect class="under" x=${i * width} y="0" width=${width} height="40" />${kinds.map((kind) => {
          const height = (of(b, kind) / most) * 40;
          y -= height;
          return height > 0 && html`<rect class=${kind[0]} x=${i * width + width * 0.1} y=${y} width=${width * 0.8} height=${height} />`;
        })}</a>`;
      })}</svg></div>
      <p class="axis"><span>${shortTime(buckets[0].start)}</span><span>checks ${stats.step === "hour" ? "an" : "a"} ${stats.step}</span><span>${shortTime(buckets.at(-1).start)}</span></p>
      <figcaption class="legend">${kinds.map((kind) => html`<a class="name" href=${all(kind[0])}><span class=${`key ${kind[0]}`}></span>${kind[1]} ${grouped(buckets.reduce((n, b) => n + of(b, kind), 0))}</a>`)}</figcaption>
      <details><summary>As a table</summary><${WideTable} label="Decisions by time" head=${["From", ...kinds.map(([, word]) => word)]}
        rows=${buckets.filter((b) => total(b) > 0).map((b) => [html`<a href=${checks(b)}>${localTime(b.start, true)}</a>`, ...kinds.map((kind) => [grouped(of(b, kind))])])} /></details>
    </figure>`;
}
