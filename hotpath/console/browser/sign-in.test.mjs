// Signing in with a provider, in a browser. Run by ../browser_test.go.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

const { SPENDGATE_API_URL: api, SPENDGATE_API_KEY: agentKey, SPENDGATE_ADMIN_KEY: adminKey, TEST_NODE_MODULES: modules, TEST_CHROMIUM: executablePath } = process.env;
const { chromium } = createRequire(`${modules}/`)("playwright-core");
let browser;
before(async () => {
  browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
});
after(() => browser?.close());

async function send(path, body) {
  const response = await fetch(api + path, { method: body ? "POST" : "GET", headers: { "Content-Type": "application/json", "X-API-Key": agentKey }, body: body && JSON.stringify(body) });
  assert.ok(response.ok, path);
  return response.json();
}

test("a person signs in, decides under their name, and signs out of all tabs", async () => {
  await send("/v1/policies", { policy_id: "asked", name: "Asked", rules: [{ rule_id: "review", rule_type: "escalate_if", parameters: { amount_above: 200, approval: {} } }] });
  const asked = await send("/v1/checks", { agent_id: "bot", policy_id: "asked", action_type: "refund", amount: 300, currency: "USD", counterparty: "c" });
  const context = await browser.newContext({ reducedMotion: "reduce" });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (e) => faults.push(e.message));
  page.on("console", (m) => /Content Security|Trusted/.test(m.text()) && faults.push(m.text()));
  await page.goto(`${api}/console/`);
  assert.equal(await page.locator("a.button.primary").innerText(), "Sign in with acme"); // as it is laid out
  await page.getByText("Sign in with acme").click();
  await page.waitForSelector("nav.wide .who:has-text('Ana Díaz')");
  const [cookie, ...others] = await context.cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.secure, cookie.sameSite, cookie.path, others.length], ["__Host-spendgate", true, true, "Lax", "/", 0]);
  assert.ok(!JSON.stringify(await page.evaluate(() => ({ ...sessionStorage, ...localStorage }))).includes(cookie.value));
  const tab = await context.newPage();
  await tab.goto(`${api}/console/#/approvals/${asked.approval_id}`);
  await tab.locator("button.approve[aria-disabled=false]").click();
  await tab.waitForSelector(".said.shown:has-text('Approved')");
  const { decisions } = await send(`/v1/approvals/${asked.approval_id}`);
  assert.deepEqual([decisions[0].principal, decisions[0].name, decisions[0].email], ["acme:7", "Ana Díaz", "ana@example.com"]);
  await page.click("nav.wide button:has-text('Sign out')");
  await page.waitForSelector("h1:has-text('Sign in')");
  assert.deepEqual(await context.cookies(), []);
  await tab.reload();
  await tab.waitForSelector("h1:has-text('Sign in')");
  await page.getByText("Sign in with acme").click(); // again, until an admin ends it
  await page.waitForSelector("nav.wide .who");
  const admin = await (await browser.newContext()).newPage();
  await admin.goto(`${api}/console/#/keys?show=sessions`);
  await admin.click("summary");
  await admin.fill("[name=admin_key]", adminKey);
  await admin.click("button.primary");
  const session = admin.locator("li:has-text('Ana Díaz')");
  await session.getByText("End", { exact: true }).click();
  await session.getByText("Yes, end it").click();
  await admin.waitForSelector("text=Nobody is signed in.");
  await page.waitForSelector("text=You were signed out");
  assert.deepEqual(faults, []);
});
