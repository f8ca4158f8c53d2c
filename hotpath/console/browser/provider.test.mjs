// Signing in with a provider as people run it, in a browser. Run by ../browser_test.go.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { generateKeyPairSync, sign } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

const { SPENDGATE_API_URL: api, SPENDGATE_API_KEY: agentKey, TEST_OIDC_ISSUER: issuer, TEST_DATA_DIR: data, TEST_NODE_MODULES: modules, TEST_CHROMIUM: executablePath } = process.env;
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));

let groups = ["finance"]; // Ana's
let down = false; // to the service, not to browsers
let hold = false; // the provider shows where it would send a browser back to
let forge; // makes another ID token of the one that the provider sends, by its key
let browser, server;

// start has the provider sign with a new key. What it keeps outlives a restart.
async function start(kid) {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const key = privateKey.export({ format: "jwk" });
  const provider = new Provider(issuer, {
    fetch: (url, { dispatcher, ...options }) => fetch(url, options), // its own calls nothing at loopback
    jwks: { keys: [{ ...key, kid, alg: "RS256", use: "sig" }] },
    cookies: { keys: ["a key of the test's"] },
    clients: [{
      client_id: "spend", client_secret: "secret", redirect_uris: [`${api}/console/callback`],
      backchannel_logout_uri: `${api}/console/backchannel-logout`, backchannel_logout_session_required: true,
    }],
    claims: { openid: ["sub"], profile: ["name"], email: ["email"], groups: ["groups"] },
    features: { backchannelLogout: { enabled: true } },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, name: "Ana Díaz", email: "ana@example.com", groups }) }),
    async loadExistingGrant({ oidc }) { // nobody is asked for consent
      const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
      grant.addOIDCScope("openid profile email groups");
      await grant.save();
      return grant;
    },
  });
  for (const fault of ["server_error", "backchannel.error"]) provider.on(fault, (_, e) => console.error(fault, e));
  provider.use(async (ctx, next) => {
    await next();
    const back = ctx.response.get("location") ?? "";
    if (hold && back.startsWith(`${api}/console/callback`)) {
      ctx.remove("location");
      Object.assign(ctx, { status: 200, type: "html", body: `<p id="held">${back.replaceAll("&", "&amp;")}</p>` });
    }
    if (forge && ctx.body?.id_token) ctx.body = { ...ctx.body, id_token: forge(ctx.body.id_token, privateKey) };
  });
  const serve = provider.callback();
  server = createServer((q, r) => (down && !q.url.startsWith("/auth") ? q.destroy() : serve(q, r)));
  await new Promise((done) => server.listen(new URL(issuer).port, "127.0.0.1", done));
}

function stop() {
  const closed = new Promise((done) => server.close(done));
  server.closeAllConnections();
  return closed;
}

before(async () => {
  await start("first");
  browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
});
after(async () => {
  await browser?.close();
  await stop();
});

async function send(path, body) {
  const response = await fetch(api + path, { method: body ? "POST" : "GET", headers: { "Content-Type": "application/json", "X-API-Key": agentKey }, body: body && JSON.stringify(body) });
  assert.ok(response.ok, path);
  return response.json();
}

async function signIn(page) {
  await page.goto(`${api}/console/`);
  await page.getByText("Sign in with acme").click();
}

async function signInByPassword(page) {
  await signIn(page);
  await page.fill("input[name=login]", "ana");
  await page.fill("input[name=password]", "anything");
  await page.click("button[type=submit]");
}

const signedIn = (page) => page.waitForSelector("nav.wide .who:has-text('Ana Díaz')");
const signedOut = (page) => page.waitForSelector("h1:has-text('Sign in')");

// returning has a browser begin to sign in, and returns what the provider sends it back to.
async function returning(page, signing) {
  hold = true;
  await signing(page);
  const url = await page.locator("#held").textContent();
  hold = false;
  return url;
}

const base64 = (value) => Buffer.from(value).toString("base64url");

// altered is an ID token with other claims, signed or not.
const altered = (claims, alg) => (token, key) => {
  const [header, body] = token.split(".", 2).map((part) => JSON.parse(Buffer.from(part, "base64url")));
  const text = `${base64(JSON.stringify({ ...header, alg }))}.${base64(JSON.stringify({ ...body, ...claims }))}`;
  return `${text}.${alg === "none" ? "" : base64(sign("sha256", Buffer.from(text), key))}`;
};

test("what the provider did not say of this sign-in signs nobody in", async () => {
  const own = await browser.newContext();
  const page = await own.newPage();
  const back = await returning(page, signInByPassword);
  const attempt = (await own.cookies()).filter((c) => c.name === "__Host-spendgate-sign-in");
  assert.equal(attempt.length, 1);

  // Somebody else's browser is sent the answer.
  const other = await browser.newContext();
  const theirs = await other.newPage();
  assert.equal((await theirs.goto(back)).status(), 400);
  await theirs.getByText("was not begun in this browser").waitFor();

  // Its own browser takes it, once.
  await page.goto(back);
  await signedIn(page);
  assert.equal((await page.goto(back)).status(), 400);
  await own.addCookies(attempt);
  assert.equal((await page.goto(back)).status(), 400);
  await page.getByText("the provider did not sign you in").waitFor();

  // Another's token, and one that nobody signed; as it is, it is taken.
  for (const [claims, alg, status] of [[{ aud: "other" }, "RS256", 400], [{}, "none", 400], [{}, "RS256", 200]]) {
    forge = altered(claims, alg);
    const context = await browser.newContext();
    const next = await context.newPage();
    const answer = await returning(next, signInByPassword);
    assert.equal((await next.goto(answer)).status(), status, `${JSON.stringify(claims)} ${alg}`);
    assert.equal((await context.cookies()).some((c) => c.name === "__Host-spendgate"), status === 200);
  }
  forge = undefined;
});

test("a provider's groups, logout, new keys and absence are a person's rights", async () => {
  await send("/v1/policies", { policy_id: "asked", name: "Asked", rules: [{ rule_id: "review", rule_type: "escalate_if", parameters: { amount_above: 200, approval: { from: [{ group: "Money", required: 1 }] } } }] });
  const asked = await send("/v1/checks", { agent_id: "bot", policy_id: "asked", action_type: "refund", amount: 300, currency: "USD", counterparty: "c" });
  const context = await browser.newContext({ reducedMotion: "reduce" });
  const page = await context.newPage();
  const approve = page.locator("button.approve[aria-disabled=false]");
  const decisions = async () => (await send(`/v1/approvals/${asked.approval_id}`)).decisions;

  await signInByPassword(page);
  await signedIn(page);
  const self = await page.evaluate(async () => (await fetch("/v1/keys/self")).json());
  assert.deepEqual([self.principal, self.role, self.groups], ["acme:ana", "approver", ["Money"]]);

  // The provider signs them out in the middle of an approval.
  await page.goto(`${api}/console/#/approvals/${asked.approval_id}`);
  await approve.waitFor();
  const tab = await context.newPage();
  await tab.goto(`${issuer}/session/end`);
  await Promise.all([tab.waitForURL("**/session/end/success*"), tab.click("button[value=yes]")]);
  await approve.click({ timeout: 10000 }).catch(() => {}); // the page, which reads again by itself, may notice first
  await signedOut(page);
  assert.deepEqual(await decisions(), []);

  // A session is too old in the middle of an approval.
  await signInByPassword(page);
  await signedIn(page);
  await page.goto(`${api}/console/#/approvals/${asked.approval_id}`);
  await approve.waitFor();
  execFileSync("python3", ["-c", "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('UPDATE sessions SET expires_at = 1'); c.commit()", `${data}/audit.db`]);
  await approve.click({ timeout: 10000 }).catch(() => {}); // the page, which reads again by itself, may notice first
  await signedOut(page);
  assert.deepEqual(await decisions(), []);

  // It signs with a new key, and the old one is gone.
  await stop();
  await start("second");
  await signInByPassword(page);
  await signedIn(page);
  await page.goto(`${api}/console/#/approvals/${asked.approval_id}`);
  await approve.click();
  await page.waitForSelector(".said.shown:has-text('Approved')");
  assert.deepEqual((await decisions()).map((d) => [d.principal, d.name, d.email]), [["acme:ana", "Ana Díaz", "ana@example.com"]]);

  // Who is in no group any more is not signed in, and was not elsewhere.
  groups = [];
  const elsewhere = await (await browser.newContext()).newPage();
  await signInByPassword(elsewhere);
  await elsewhere.getByText("none of your groups has a role here").waitFor();
  await page.reload();
  await signedOut(page);

  // The provider knows them still after they signed out here.
  groups = ["finance"];
  await signIn(page);
  await signedIn(page);
  await page.click("nav.wide button:has-text('Sign out')");
  await signedOut(page);
  await signIn(page);
  await signedIn(page);

  // Without the provider nobody signs in; sessions and API keys go on.
  down = true;
  await page.reload();
  await signedIn(page);
  await send("/v1/checks", { agent_id: "bot", policy_id: "asked", action_type: "refund", amount: 3, currency: "USD", counterparty: "c" });
  const [answer] = await Promise.all([elsewhere.waitForResponse("**/console/callback?*"), signIn(elsewhere)]);
  assert.equal(answer.status(), 502);
  await elsewhere.getByText("the sign-in provider does not answer").waitFor();
});
