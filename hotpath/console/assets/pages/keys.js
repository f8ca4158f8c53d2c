// Keys: who may do what, and who is signed in, with the admin key.
import { html, useState } from "../lib/html.js";
import { call, segment, usePages } from "../lib/api.js";
import { exact } from "../lib/json.js";
import { link } from "../lib/route.js";
import { roleNames } from "../lib/session.js";
import { inputTime, plural } from "../lib/words.js";
import { Badge, Empty, Failure, Form, Head, ID, PlainTime, Sure, Table, Tabs, timeColumn, useAct, Who } from "../lib/parts.js";

const admin = { admin: true };
// unnamed are the roles whose keys need no principal: what other keys ask for, decide, write or redeem
// stays a person's or a program's own when the key is replaced.
const unnamed = ["auditor", "full"];

// The members of a key that are edited, by their fields. The first three are what people look for.
const rights = (role, changed) => [
  ["name", "Name", { required: true, maxlength: 255 }],
  ["role", "Role", { of: roleNames, value: role, onChange: (e) => changed(e.currentTarget.value) }],
  ["principal", "Principal", { hint: "Who stands behind it, the same in all of their keys", required: !unnamed.includes(role), pattern: ".*\\S.*", maxlength: 128 }],
  ["owner", "Owner", { hint: "Who runs the agent", maxlength: 128 }],
  ["groups", "Groups", { hint: "Of approvers; separated by commas", kind: "list" }],
  ["agent_ids", "Agents", { hint: "The only ones; separated by commas", kind: "list" }],
  ["policy_ids", "Policies", { hint: "The only ones; separated by commas", kind: "list" }],
  ["rate_limit_rpm", "Requests a minute", { inputmode: "numeric", placeholder: "100", kind: "number" }],
  ["expires_at", "Expires", { type: "datetime-local" }],
];

const columns = [
  ["Name", (k) => k.name, "what", "minmax(0, 1.4fr)"],
  ["State", (k) => html`<${Badge} of=${k.active ? "active" : "failed"}>${k.active ? "active" : "inactive"}<//>`, "aside", "5rem"],
  ["Role", (k) => k.role ?? (k.scopes ? plural(k.scopes.length, "scope") : "full"), "", "6rem"],
  ["Principal", (k) => (k.principal ? html`<${Who} name=${k.principal} />` : html`<span class="none">no principal</span>`)],
  ["Owner", (k) => k.owner && html`<i>of </i>${k.owner}`],
  ["Groups", (k) => k.groups?.join(", "), "", "minmax(0, 1.2fr)"],
  ["Last used", (k) => (k.last_used_at ? html`<${PlainTime} at=${k.last_used_at} />` : "never used"), "", "8.5rem"],
  timeColumn("Expires", "expires_at", "expires", "far"),
];

export function Keys({ route }) {
  const list = usePages("/v1/keys", { limit: 100 }, admin);
  const [made, setMade] = useState(null);
  const [role, setRole] = useState("approver");
  const sessions = route.query.show === "sessions";
  const make = async (given, _, form) => {
    setMade(await call("POST", "/v1/keys", { ...admin, body: given }));
    form.reset();
    setRole("approver");
    list.reload();
  };
  return html`
    <${Head} title="Keys" />
    <${Tabs} label="Which" of=${[["API keys", link("keys"), !sessions], ["Sessions", link("keys", "", { show: "sessions" }), sessions]]} />
    ${sessions ? html`<${Sessions} />` : html`
      ${made && html`<div class="once" role="status"><p>The new key of ${made.name}. It is shown only this once.</p><code class="hash">${made.api_key}</code> <button onClick=${() => setMade(null)}>Done</button></div>`}
      <details class="new"><summary>A new key</summary><${Form} fields=${rights(role, setRole)} button="Create" send=${make} /></details>
      <${Table} list=${list} label="Keys, the newest first" columns=${columns} body=${(k) => html`<${Key} k=${k} done=${list.reload} />`} empty=${html`<${Empty} title="No keys." />`} />`}`;
}

// Key is one key: what it may do, the form that changes that, and its end. A member that was emptied is cleared.
function Key({ k, done }) {
  const [role, setRole] = useState(k.role ?? "");
  const { act, failure } = useAct();
  const change = (body) => call("PATCH", `/v1/keys/${k.key_id}`, { ...admin, body }).then(done);
  const text = (value) => (Array.isArray(value) ? value.join(", ") : exact(value));
  const fields = rights(role, setRole).map(([name, label, as]) => [name, label, name === "role" ? { ...as, of: k.role ? roleNames : [["", k.scopes ? "scopes" : "full"], ...roleNames] }
    : { ...as, value: as.type ? k[name] && inputTime(k[name]) : text(k[name]) }]);
  const save = (given) => {
    const body = Object.fromEntries(fields.map(([name, , { type }]) => [name, given[name] ?? null, type && k[name] ? inputTime(k[name]) === inputTime(given[name] ?? "") : text(given[name]) === text(k[name])])
      .filter(([name, value, same]) => !same && !(name === "role" && !value)));
    return Object.keys(body).length > 0 && change(body);
  };
  return html`
    <p class="hint"><${ID} id=${k.key_id} /> ${k.scopes && ` · ${k.scopes.join(", ")}`}</p>
    <${Form} fields=${fields} label=${`Change ${k.name}`} button="Save" send=${save} />
    <div class="buttons"><${Sure} yes=${k.active ? "Yes, deactivate" : "Yes, activate"} title=${k.active ? "Also stops what it was allowed and nobody redeemed" : "Restores nothing that was stopped"}
      act=${() => act(() => change({ active: !k.active }))}>${k.active ? "Deactivate" : "Activate"}<//></div><${Failure} error=${failure} doing />`;
}

const sessionColumns = [
  ["Name", (s) => s.name || s.principal, "what", "minmax(0, 1.4fr)"], ["Role", (s) => s.role ?? s.scopes?.join(", "), "aside", "8rem"],
  ["E-mail", (s) => s.email], ["Principal", (s) => html`<${Who} name=${s.principal} />`], ["Groups", (s) => s.groups?.join(", ")],
  timeColumn("Since", "created_at", "since"), timeColumn("Last used", "last_used_at", "used"),
  timeColumn("Ends", "ends_at", "ends"),
];

// Sessions are those of people who signed in with the provider.
function Sessions() {
  const list = usePages("/v1/sessions", { limit: 100 }, admin);
  const { act, failure } = useAct();
  const end = (s) => act(() => call("DELETE", `/v1/sessions/${segment(s.session_id)}`, admin).then(list.reload));
  return html`<${Failure} error=${failure} doing />
    <${Table} list=${list} label="Sessions, the newest first" columns=${[...sessionColumns, ["", (s) => html`<${Sure} yes="Yes, end it" act=${() => end(s)}>End<//>`, "", "6rem"]]}
      empty=${html`<${Empty} title="Nobody is signed in.">People who sign in with the provider of the organization appear here. Who may still sign in can do so again.<//>`} />`;
}
