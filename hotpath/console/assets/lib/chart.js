// Decisions over time, as stacked bars and as a table.
import { html } from "./html.js";
import { localTime, shortTime } from "./words.js";

const kinds = [["allow", "allowed"], ["escalate", "escalated"], ["block", "blocked"]];

export function Chart({ stats }) {
  const buckets = stats.data;
  const of = (b, kind) => Number(b[kind[0]] ?? 0);
  const total = (b) => kinds.reduce((n, kind) => n + of(b, kind), 0);
  const most = Math.max(1, ...buckets.map(total));
  const width = 100 / Math.max(1, buckets.length);
  const start = (b) => b.start;
  return html`
    <figure class="chart">
      <p class="hint">At most ${most} ${stats.step === "hour" ? "an" : "a"} ${stats.step}</p>
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">${buckets.map((b, i) => {
        let y = 40;
        return kinds.map((kind) => {
          const height = (of(b, kind) / most) * 38;
          y -= height;
          return height > 0 && html`<rect class=${kind[0]} x=${i * width + width * 0.1} y=${y} width=${width * 0.8} height=${height} />`;
        });
      })}</svg>
      <p class="axis"><span>${shortTime(start(buckets[0]))}</span><span>${shortTime(start(buckets.at(-1)))}</span></p>
      <figcaption class="legend">${kinds.map((kind) => html`<span><span class=${`key ${kind[0]}`}></span>${kind[1]} ${buckets.reduce((n, b) => n + of(b, kind), 0)}</span>`)}</figcaption>
      <details><summary>As a table</summary><table><thead><tr><th scope="col">From</th>${kinds.map((k) => html`<th scope="col">${k[1]}</th>`)}</tr></thead>
        <tbody>${buckets.filter((b) => total(b) > 0).map((b) => html`<tr><th scope="row">${localTime(start(b))}</th>${kinds.map((k) => html`<td>${of(b, k)}</td>`)}</tr>`)}</tbody></table></details>
    </figure>`;
}
