// Webhooks: where events are delivered, what was tried, and trying again.
import { html, useState } from "../lib/html.js";
import { call, get, segment, useLoad, usePages } from "../lib/api.js";
import { link } from "../lib/route.js";
import { took } from "../lib/words.js";
import { Awaited, Badge, Empty, Failure, Form, Head, ID, Table, Tabs, timeColumn, useAct } from "../lib/parts.js";

const admin = { admin: true };

export const Webhooks = ({ route }) => (route.part ? html`<${Webhook} key=${route.part} id=${route.part} failed=${route.query.status} />` : html`<${List} />`);

function List() {
  const [secret, setSecret] = useState(null);
  const list = usePages("/v1/webhooks", {}, admin);
  const make = async (body) => {
    setSecret(await call("POST", "/v1/webhooks", { ...admin, body }));
    list.reload();
  };
  return html`
    <${Head} title="Webhooks" />
    ${secret && html`<div class="once" role="status"><p>The secret of the new webhook. It is shown only this once.</p><code class="hash">${secret.secret}</code></div>`}
    <details class="new"><summary>A new webhook</summary><${Form} button="Create" send=${make} fields=${[
      ["url", "URL", { type: "url", required: true }], ["event_types", "Event types", { value: "approval.requested", hint: "Separated by commas", kind: "list", required: true }]]} /></details>
    <${Table} list=${list} label="Webhooks" to=${(w) => link("webhooks", w.webhook_id)} columns=${[
      ["URL", (w) => w.url, "what"], ["State", (w) => html`<${Badge} of=${w.status} />`, "aside", "6rem"], ["Events", (w) => w.event_types.join(", ")], timeColumn("Since", "created_at", "since")]}
      empty=${html`<${Empty} title="No webhooks.">Give a URL that takes events, and the types that it is for.<//>`} />`;
}

function Webhook({ id, failed }) {
  const path = `/v1/webhooks/${segment(id)}`;
  const read = useLoad((signal) => get(path, { ...admin, signal }), [id]);
  const list = usePages(`${path}/deliveries`, { limit: 100, status: failed }, admin);
  const [said, say] = useState("");
  const { act, failure } = useAct();
  const change = (words, method, to, body) => act(async () => {
    await call(method, to, { ...admin, body });
    say(words);
    read.reload();
    list.reload();
  });
  const w = read.data;
  if (!w) return html`<${Awaited} title="Webhook" of=${read} />`;
  return html`
    <${Head} title="Webhook" back=${[link("webhooks"), "All webhooks"]}><button onClick=${() => change("What waits is sent now.", "POST", `${path}/retry`)}>Send what waits now</button>
      <button onClick=${() => change("Changed.", "PATCH", path, { status: w.status === "active" ? "disabled" : "active" })}>${w.status === "active" ? "Disable" : "Enable"}</button><//>
    <p>${w.url} <${Badge} of=${w.status} /></p><p class="hint">${w.event_types.join(", ")}</p>
    <p role="status">${said}</p><${Failure} error=${failure} doing />
    <section><h2>Deliveries of the last seven days</h2>
      <${Tabs} label="Which deliveries" of=${[["All", link("webhooks", id), !failed], ["Failed", link("webhooks", id, { status: "failed" }), failed]]} />
      <${Table} list=${list} label="Deliveries" columns=${[
        ["Type", (d) => d.event_type, "what"], ["State", (d) => html`<${Badge} of=${d.delivered ? "delivered" : "failed"} />`, "aside", "6rem"], ["Attempt", (d) => html`<i>attempt </i>${d.attempt}`, "number", "4.5rem"],
        ["Answer", (d) => `${d.status_code ?? "no answer"}${d.error ? `, ${d.error}` : ""}`, "", "minmax(0, 2fr)"], ["Duration", (d) => took(d.duration_ms), "number", "5rem"], ["Event", (d) => html`<${ID} id=${d.event_id} />`],
        timeColumn("Time", "timestamp"), ["", (d) => html`<button onClick=${() => change("It is sent again.", "POST", `${path}/deliveries/${d.delivery_id}/replay`)}>Send again</button>`, "", "6rem"]]}
        empty=${html`<${Empty} title="Nothing was delivered yet." />`} />
    </section>`;
}
