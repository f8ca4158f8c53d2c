// Decisions over time, as stacked bars and as a table.
import { html } from "./html.js";
import { localTime, shortTime } from "./words.js";

const kinds = [["allow", "allowed"], ["escalate", "escalated"], ["block", "blocked"]];

// top returns the end of the axis: 1, 2 or 5 times a power of ten.
function top(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
}

export function Chart({ stats }) {
  const buckets = stats.data;
  const of = (b, kind) => Number(b[kind[0]] ?? 0);
  const total = (b) => kinds.reduce((n, kind) => n + of(b, kind), 0);
  const most = top(Math.max(2, ...buckets.map(total)));
  const width = 100 / Math.max(1, buckets.length);
  const start = (b) => b.start;
  const words = (b) => `${localTime(start(b))}: ${kinds.map((kind) => `${of(b, kind)} ${kind[1]}`).join(", ")}`;
  return html`
    <figure class="chart">
      <div class="plot" aria-hidden="true"><p class="scale">${[most, most / 2, 0].map((n) => html`<span>${n}</span>`)}</p>
      <svg viewBox="0 0 100 40" preserveAspectRatio="none">${[0, 20].map((y) => html`<line x1="0" x2="100" y1=${y} y2=${y} />`)}${buckets.map((b, i) => {
        let y = 40;
        return html`<g><title>${words(b)}</title><rect class="under" x=${i * width} y="0" width=${width} height="40" />${kinds.map((kind) => {
          const height = (of(b, kind) / most) * 40;
          y -= height;
          return height > 0 && html`<rect class=${kind[0]} x=${i * width + width * 0.1} y=${y} width=${width * 0.8} height=${height} />`;
        })}</g>`;
      })}</svg></div>
      <p class="axis"><span>${shortTime(start(buckets[0]))}</span><span>checks ${stats.step === "hour" ? "an" : "a"} ${stats.step}</span><span>${shortTime(start(buckets.at(-1)))}</span></p>
      <figcaption class="legend">${kinds.map((kind) => html`<span><span class=${`key ${kind[0]}`}></span>${kind[1]} ${buckets.reduce((n, b) => n + of(b, kind), 0)}</span>`)}</figcaption>
      <details><summary>As a table</summary><table><thead><tr><th scope="col">From</th>${kinds.map((k) => html`<th scope="col">${k[1]}</th>`)}</tr></thead>
        <tbody>${buckets.filter((b) => total(b) > 0).map((b) => html`<tr><th scope="row">${localTime(start(b))}</th>${kinds.map((k) => html`<td>${of(b, k)}</td>`)}</tr>`)}</tbody></table></details>
    </figure>`;
}
