// Webhooks: where events are delivered, what was tried, and trying again.
import { html, useState } from "../lib/html.js";
import { call, get } from "../lib/api.js";
import { link } from "../lib/route.js";
import { useLoad, usePages } from "../lib/load.js";
import { Table, Tabs } from "../lib/table.js";
import { Badge, Empty, Failure, Field, Head, ID, Loading, PlainTime } from "../lib/parts.js";

const admin = { admin: true };

export function Webhooks({ route }) {
  if (route.part) return html`<${Webhook} key=${route.part} id=${route.part} failed=${route.query.status} />`;
  return html`<${List} />`;
}

function List() {
  const { data, error, reload } = useLoad((signal) => get("/v1/webhooks", { ...admin, signal }), []);
  const [secret, setSecret] = useState(null);
  const [failure, setFailure] = useState(null);
  const make = async (e) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget);
    try {
      setFailure(null);
      setSecret(await call("POST", "/v1/webhooks", { ...admin, body: { url: form.get("url"), event_types: form.get("types").split(",").map((s) => s.trim()).filter(Boolean) } }));
      reload();
    } catch (f) {
      setFailure(f);
    }
  };
  return html`
    <${Head} title="Webhooks" />
    ${secret && html`<div class="once" role="status"><p>The secret of the new webhook. It is shown this once.</p><code class="hash">${secret.secret}</code></div>`}
    <${Failure} error=${error} /><${Failure} error=${failure} doing />
    <details class="new"><summary>A new webhook</summary><form class="try" onSubmit=${make}>
      <${Field} label="URL"><input name="url" type="url" required /><//>
      <${Field} label="Event types" hint="With commas between them"><input name="types" value="approval.requested" required /><//>
      <div class="buttons"><button class="primary">Create</button></div></form></details>
    ${!data ? html`<${Loading} />` : data.data.length === 0 ? html`<${Empty} title="No webhooks.">Give a URL that takes events, and the types it is for.<//>`
      : html`<ul class="rows">${data.data.map((w) => html`<li key=${w.webhook_id}><a class="row" href=${link("webhooks", w.webhook_id)}><span class="what">${w.url}</span><span class="side-note"><${Badge} of=${w.status} /></span><span class="by">${w.event_types.join(", ")}</span></a></li>`)}</ul>`}`;
}

function Webhook({ id, failed }) {
  const path = `/v1/webhooks/${id}`;
  const { data: w, error, reload } = useLoad((signal) => get(path, { ...admin, signal }), [id]);
  const list = usePages(`${path}/deliveries`, { limit: 100, status: failed }, admin);
  const [said, say] = useState("");
  const [failure, setFailure] = useState(null);
  const act = async (words, method, to, body) => {
    try {
      setFailure(null);
      await call(method, to, { ...admin, body });
      say(words);
      reload();
      list.reload();
    } catch (f) {
      setFailure(f);
    }
  };
  if (!w) return html`<${Head} title="Webhook" />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`;
  return html`
    <p class="crumbs"><a class="back" href=${link("webhooks")}>All webhooks</a></p>
    <${Head} title="Webhook"><button onClick=${() => act("What waits is tried now.", "POST", `${path}/retry`)}>Try what waits now</button>
      <button onClick=${() => act("Changed.", "PATCH", path, { status: w.status === "active" ? "disabled" : "active" })}>${w.status === "active" ? "Disable" : "Enable"}</button><//>
    <p>${w.url} <${Badge} of=${w.status} /></p><p class="hint">${w.event_types.join(", ")}</p>
    <p role="status">${said}</p><${Failure} error=${failure} doing />
    <section><h2>Deliveries of the last seven days</h2>
      <${Tabs} label="Which deliveries" of=${[["All", link("webhooks", id), !failed], ["Failed", link("webhooks", id, { status: "failed" }), failed]]} />
      <${Table} list=${list} label="Deliveries" columns=${[
        ["Type", (d) => d.event_type, "what"], ["State", (d) => html`<${Badge} of=${d.delivered ? "delivered" : "failed"} />`, "aside", "6rem"], ["Attempt", (d) => `attempt ${d.attempt}`, "", "6rem"],
        ["Answer", (d) => `${d.status_code ?? "no answer"}${d.error ? `, ${d.error}` : ""}`, "", "minmax(0, 2fr)"], ["Took", (d) => `${d.duration_ms} ms`, "number", "5rem"], ["Event", (d) => html`<${ID} id=${d.event_id} />`],
        ["Time", (d) => html`<${PlainTime} at=${d.timestamp} />`, "", "10.5rem"], ["", (d) => html`<button onClick=${() => act("It is delivered again.", "POST", `${path}/deliveries/${d.delivery_id}/replay`)}>Replay</button>`, "", "5rem"],
      ]}
        empty=${html`<${Empty} title="Nothing was delivered yet." />`} />
    </section>`;
}
