// Backtests: a policy over what was recorded.
import { html, useState } from "../lib/html.js";
import { get, post, segment } from "../lib/api.js";
import { print } from "../lib/json.js";
import { link } from "../lib/route.js";
import { may } from "../lib/session.js";
import { useLoad, usePages } from "../lib/load.js";
import { Table } from "../lib/table.js";
import { Badge, Empty, Facts, Failure, Field, Head, Loading, PlainTime, Policy, Time, Who } from "../lib/parts.js";
import { ended, Flipped, Report, Running } from "./report.js";

export function Backtests({ route }) {
  if (route.part) return html`<${Backtest} key=${route.part} id=${route.part} />`;
  const list = usePages("/v1/backtests", { limit: 50 });
  return html`
    <${Head} title="Backtests"><button onClick=${list.reload}>Refresh</button><//>
    <p class="hint">What other rules would have decided about the checks of a time. Begin one from a policy's editor, or with <code>spendgate policies backtest</code>.</p>
    <${Table} list=${list} label="Backtests, the newest first" columns=${columns} to=${(b) => link("backtests", b.backtest_id)}
      empty=${html`<${Empty} title="No backtests.">Open a policy, change its text in the editor, and see there what it would have done.<//>`} />`;
}

const columns = [
  ["Policy", (b) => b.policy_id, "what"], ["State", (b) => html`<${Badge} of=${b.status} />`, "aside", "7rem"], ["Rules", (b) => (b.version ? `version ${b.version}` : "changed rules"), "", "8rem"],
  ["From", (b) => html`<${PlainTime} at=${b.from} />`, "", "10.5rem"], ["To", (b) => html`<${PlainTime} at=${b.to} />`, "", "10.5rem"], ["By", (b) => html`<${Who} name=${b.principal} />`],
];

// Backtest shows one, on a page of its own or within another.
export function Backtest({ id, within = false }) {
  const [done, setDone] = useState(false);
  const { data: b, error, reload } = useLoad(async (signal) => {
    const read = await get(`/v1/backtests/${segment(id)}`, { signal });
    setDone(ended(read.status));
    return read;
  }, [id], done ? 0 : 1000);
  const [failure, setFailure] = useState(null);
  const cancel = () => post(`/v1/backtests/${segment(id)}/cancel`).then(reload, setFailure);
  if (!b) return html`${!within && html`<${Head} title="Backtest" />`}${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}`;
  return html`
    ${within ? html`<h2 class="part">The backtest</h2>` : html`<p class="crumbs"><a class="back" href=${link("backtests")}>All backtests</a></p><${Head} title=${`Backtest of ${b.policy_id}`} />`}
    ${!ended(b.status) && html`<button onClick=${cancel}>Cancel</button>`}
    <${Running} of=${b} />
    <${Failure} error=${failure ?? error} />
    <${Facts} of=${[
      ["Rules", b.version ? `as of version ${b.version}` : "changed, as below"], ["State", b.state],
      ["By", html`<${Who} name=${b.principal} />`], ["Begun", html`<${Time} at=${b.created_at} />`],
    ]} />
    ${b.report && html`<${Report} report=${b.report} /><section><h2>Decided otherwise</h2><${Flips} id=${id} total=${b.report.flips} /></section>`}
    <details class="exactly"><summary>The rules</summary><pre class="json">${print(b.rules)}</pre></details>`;
}

function Flips({ id, total }) {
  const list = usePages(`/v1/backtests/${segment(id)}/flips`, { limit: 100 });
  return html`${total.listed < total.total && html`<p class="hint">The first ${total.listed} of ${total.total}.</p>`}
    <${Flipped} list=${list} />`;
}

const days = { "1 day": 1, "7 days": 7, "30 days": 30 };

// Begin asks for how long, and begins a backtest of rules.
export function Begin({ id, rules, begun }) {
  const [failure, setFailure] = useState(null);
  const [length, setLength] = useState("7 days");
  if (!may("backtests:write")) return null;
  const begin = async () => {
    try {
      const to = Date.now();
      const of = { policy_id: id, rules: rules(), from: new Date(to - days[length] * 86400e3).toISOString(), to: new Date(to).toISOString() };
      begun((await post("/v1/backtests", print(of))).backtest_id);
    } catch (e) {
      setFailure(e);
    }
  };
  return html`
    <section><h2>What it would have done</h2><p class="hint">These rules, over the checks that were recorded. Nothing is decided by it.</p>
      <div class="buttons"><${Field} label="Over the last"><select onChange=${(e) => setLength(e.currentTarget.value)}>${Object.keys(days).map((d) => html`<option selected=${d === length}>${d}</option>`)}</select><//>
        <button onClick=${begin}>Begin a backtest</button></div>
      <${Failure} error=${failure} doing /></section>`;
}
