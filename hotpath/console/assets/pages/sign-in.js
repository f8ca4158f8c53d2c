// Signing in: with the provider of the organization, with a link of spendgate dev, or with a key.
import { html, useEffect, useState } from "../lib/html.js";
import { get, post } from "../lib/api.js";
import { go } from "../lib/route.js";
import { session, setSession, store, stored } from "../lib/session.js";
import { Failure, Field, Loading } from "../lib/parts.js";

// enter signs in with keys that the API takes.
async function enter(apiKey, adminKey) {
  const keys = { apiKey: apiKey || undefined, adminKey: adminKey || undefined };
  const key = apiKey ? await get("/v1/keys/self", { keys }) : undefined;
  if (adminKey) await get("/v1/keys", { keys, admin: true, query: { limit: 1 } });
  setSession({ ...keys, key });
}

// The address that somebody wanted, kept while the provider has the tab.
const wanted = "spendgate.wanted";
export const keepWanted = () => store(wanted, location.hash);
function goWanted() {
  const address = stored(wanted);
  store(wanted, null);
  if (address && !location.hash.replace(/^#\/?/, "")) go(address, true);
}

export function SignIn({ route }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const { ended } = session();
  const code = route.page === "sign-in" ? route.part : "";
  const attempt = async (how) => {
    setBusy(true);
    setError(null);
    try {
      await how();
    } catch (e) {
      setError(e);
    }
    setBusy(false);
  };
  const [provider, setProvider] = useState(null);
  useEffect(() => {
    if (code) return;
    const keys = { cookie: true };
    get("/console/session", { keys }).catch(() => null).then(async (is) => {
      setProvider(is?.sign_in ?? null);
      if (!is?.session) return;
      const key = await get("/v1/keys/self", { keys }).catch((e) => e.status !== 401 && setError(e));
      if (!key) return;
      goWanted();
      setSession({ ...keys, key });
    });
  }, [code]);
  useEffect(() => {
    if (!code) return;
    go("#/", true); // the code is in no history
    attempt(async () => {
      const keys = await post("/console/sign-in", { code }, { keys: {} });
      await enter(keys.api_key, keys.admin_key);
    });
  }, [code]);
  const submit = (e) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget);
    const [apiKey, adminKey] = [form.get("api_key").trim(), form.get("admin_key").trim()];
    if (apiKey || adminKey) attempt(() => enter(apiKey, adminKey));
  };
  return html`
    <main class="sign-in" id="main">
      <p class="brand"><span class="aside" aria-hidden="true"></span>spendgate</p>
      <h1>Sign in</h1>
      ${ended && !error && html`<div class="failure" role="alert"><p>You were signed out: ${ended.message}</p>${ended.requestID && html`<p class="hint">${ended.requestID}</p>`}</div>`}
      <${Failure} error=${error} />
      ${busy ? html`<${Loading} />` : html`
      ${provider && html`<p><a class="button primary" href="/console/sign-in" onClick=${keepWanted}><span>Sign in with <bdi>${provider}</bdi></span></a></p><p class="hint">Or with a key:</p>`}
      <form onSubmit=${submit}>
        <${Field} label="Your API key" hint="It begins with svc_live_. An admin makes one for each person.">
          <input name="api_key" type="password" autocomplete="off" spellcheck="false" autofocus /><//>
        <details>
          <summary>Admin key, for keys and webhooks</summary>
          <${Field} label="Admin key" hint="Leave it empty unless you need these pages."><input name="admin_key" type="password" autocomplete="off" spellcheck="false" /><//>
        </details>
        <button class="primary">Sign in</button>
      </form>
      <p class="hint">Keys stay in this tab until you sign out or close it. With <code>spendgate dev</code>, open the link that it prints when it starts; the folder of its state has the key in <code>console.key</code> once a link was used.</p>`}
    </main>`;
}
