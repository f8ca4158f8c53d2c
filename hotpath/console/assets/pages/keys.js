// Keys: who may do what, with the admin key.
import { html, useState } from "../lib/html.js";
import { call } from "../lib/api.js";
import { roleNames } from "../lib/session.js";
import { usePages } from "../lib/load.js";
import { Table } from "../lib/table.js";
import { Badge, Empty, Failure, Field, Head, ID, PlainTime, Sure } from "../lib/parts.js";

const admin = { admin: true };
// unnamed are the roles whose keys need no principal: what other keys ask for, decide, write or redeem
// stays a person's or a program's own when the key is replaced.
const unnamed = ["auditor", "full"];
const entries = (text) => text.split(",").map((s) => s.trim()).filter(Boolean);

const columns = (change) => [
  ["Name", (k) => k.name, "what", "minmax(0, 1.4fr)"],
  ["State", (k) => html`<${Badge} of=${k.active ? "active" : "failed"}>${k.active ? "active" : "inactive"}<//>`, "aside", "5rem"],
  ["Role", (k) => k.role ?? k.scopes?.join(", ") ?? "full", "", "6rem"],
  ["Principal", (k) => k.principal ?? html`<span class="none">no principal</span>`],
  ["Owner", (k) => k.owner && html`<i>of </i>${k.owner}`],
  ["Groups", (k) => k.groups?.join(", ")],
  ["Only", (k) => [k.agent_ids && `agents ${k.agent_ids.join(", ")}`, k.policy_ids && `policies ${k.policy_ids.join(", ")}`].filter(Boolean).join(", ")],
  ["A minute", (k) => html`${k.rate_limit_rpm}<i> a minute</i>`, "number", "6rem"],
  ["Last used", (k) => (k.last_used_at ? html`<${PlainTime} at=${k.last_used_at} />` : "never used"), "", "10.5rem"],
  ["Until", (k) => k.expires_at && html`<${PlainTime} at=${k.expires_at} />`],
  ["Key", (k) => html`<${ID} id=${k.key_id} />`],
  ["", (k) => html`<${Sure} yes=${k.active ? "Yes, deactivate" : "Yes, activate"} title=${k.active ? "Also stops what it was allowed and nobody redeemed" : "Restores nothing that was stopped"} act=${() => change(k, { active: !k.active })}>${k.active ? "Deactivate" : "Activate"}<//>`, "", "8rem"],
];

export function Keys() {
  const list = usePages("/v1/keys", { limit: 100 }, admin);
  const [made, setMade] = useState(null);
  const [failure, setFailure] = useState(null);
  const [role, setRole] = useState("approver");
  const change = async (key, body) => {
    try {
      setFailure(null);
      await call("PATCH", `/v1/keys/${key.key_id}`, { ...admin, body });
      list.reload();
    } catch (f) {
      setFailure(f);
    }
  };
  const make = async (e) => {
    e.preventDefault();
    const form = e.currentTarget;
    const given = Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, v.trim()]).filter(([, v]) => v));
    for (const name of ["policy_ids", "agent_ids", "groups"]) if (given[name]) given[name] = entries(given[name]);
    if (given.rate_limit_rpm) given.rate_limit_rpm = Number(given.rate_limit_rpm);
    try {
      setFailure(null);
      setMade(await call("POST", "/v1/keys", { ...admin, body: given }));
      form.reset();
      setRole("approver");
      list.reload();
    } catch (f) {
      setFailure(f);
    }
  };
  return html`
    <${Head} title="Keys" />
    ${made && html`<div class="once" role="status"><p>The new key of ${made.name}. It is shown this once.</p><code class="hash">${made.api_key}</code> <button onClick=${() => setMade(null)}>I have it</button></div>`}
    <${Failure} error=${failure} doing />
    <details class="new"><summary>A new key</summary><form class="try" onSubmit=${make}>
      <${Field} label="Name"><input name="name" required maxlength="255" autocomplete="off" /><//>
      <${Field} label="Role"><select name="role" onChange=${(e) => setRole(e.currentTarget.value)}>${roleNames.map((r) => html`<option selected=${r === role}>${r}</option>`)}</select><//>
      <${Field} label="Principal" hint="Who stands behind it, the same in all of their keys"><input name="principal" required=${!unnamed.includes(role)} pattern=".*\\S.*" maxlength="128" autocomplete="off" /><//>
      <${Field} label="Owner" hint="Who runs the agent"><input name="owner" maxlength="128" autocomplete="off" /><//>
      <${Field} label="Groups" hint="Of who decides with it; with commas"><input name="groups" autocomplete="off" /><//>
      <${Field} label="Agents" hint="The only ones; with commas"><input name="agent_ids" autocomplete="off" /><//>
      <${Field} label="Policies" hint="The only ones; with commas"><input name="policy_ids" autocomplete="off" /><//>
      <${Field} label="Requests a minute"><input name="rate_limit_rpm" inputmode="numeric" placeholder="100" /><//>
      <${Field} label="Expires" hint="RFC 3339"><input name="expires_at" placeholder="2027-01-31T00:00:00Z" /><//>
      <div class="buttons"><button class="primary">Create</button></div></form></details>
    <${Table} list=${list} label="Keys, the newest first" columns=${columns(change)}
      empty=${html`<${Empty} title="No keys." />`} />`;
}
