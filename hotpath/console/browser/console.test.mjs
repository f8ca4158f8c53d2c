// The console in a browser, with a node. Run by ../browser_test.go.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

const { SPENDGATE_API_URL: api, SPENDGATE_API_KEY: agentKey, SPENDGATE_ADMIN_KEY: adminKey, TEST_NODE_MODULES: modules, TEST_CHROMIUM: executablePath } = process.env;
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--process-per-site"];
const phone = { width: 390, height: 844 };
let browser, tabs;
const faults = [];

async function send(method, path, body, headers = { "X-API-Key": agentKey }) {
  const response = await fetch(api + path, { method, headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) });
  const answer = await response.json();
  assert.ok(response.ok, `${path}: ${JSON.stringify(answer)}`);
  return answer;
}
const person = (name, more = {}) => send("POST", "/v1/keys", { name, principal: name, role: "approver", rate_limit_rpm: 10000, ...more }, { "X-Admin-Key": adminKey });
let last = 0;
const ask = (more = {}) => send("POST", "/v1/checks", { agent_id: "bot", policy_id: "asked", action_type: "refund", amount: 300.5, currency: "USD", counterparty: `customer-${++last}`, ...more });

// open signs a key in, in a tab of its own, which has a session of its own.
async function open(key, options = {}) {
  const page = await tabs.newPage();
  await page.setViewportSize(options.viewport ?? { width: 1280, height: 860 });
  await page.emulateMedia({ colorScheme: options.dark ? "dark" : "light", reducedMotion: "reduce" }); // contrast is measured when nothing fades
  page.on("pageerror", (e) => faults.push(e.message));
  page.on("console", (m) => /Content Security|Trusted/.test(m.text()) && faults.push(m.text()));
  page.on("request", (r) => r.url().startsWith(api) || faults.push(`asked ${r.url()}`));
  await options.prepare?.(page);
  await page.goto(`${api}/console/`);
  await page.fill("[name=api_key]", key);
  if (options.admin) {
    await page.click("summary");
    await page.fill("[name=admin_key]", adminKey);
  }
  await page.click("button.primary");
  await page.waitForSelector("header.side");
  return page;
}
const show = (page, hash) => page.goto(`${api}/console/${hash}`);
const armed = (page, which) => page.locator(`button.${which}[aria-disabled=false]`);

before(async () => {
  browser = await chromium.launch({ executablePath, args: flags });
  tabs = await browser.newContext();
  await (await tabs.newPage()).goto(`${api}/console/`); // its process stays for the others: to start one takes as long as a test
  await send("POST", "/v1/policies", { policy_id: "asked", name: "Asked", rules: [
    { rule_id: "review", rule_type: "escalate_if", description: "A person looks", parameters: { amount_above: 200, approval: {} } },
    { rule_id: "two", rule_type: "escalate_if", description: "Two people look", parameters: { amount_above: 1000, approval: { required: 2 } } },
    { rule_id: "day", rule_type: "budget", parameters: { limit: 5000, currency: "USD", window: "day", per: ["agent_id"] } },
  ] });
});
after(async () => {
  await browser?.close();
  assert.deepEqual(faults, []);
});

test("from an escalate to its allow, on a phone", async () => {
  const ann = await open((await person("ann")).api_key, { viewport: phone });
  const [first, second] = [await ask({ agent_id: "loop" }), await ask({ agent_id: "loop" })];
  assert.equal(first.decision, "escalate");
  await ann.click(`li:has-text("customer-${last - 1}") .opens`);
  await ann.waitForSelector("text=A person looks");
  assert.equal(await ann.locator(".amount.large").textContent(), "300.50 USD");
  assert.match(await ann.locator(".left li").textContent(), /^day\s*5000.00 USD left, 4699\.50 USD after this\s*blocks beyond 5,000.00 USD/);
  await ann.fill(".note", "Seen the photographs");
  await armed(ann, "approve").click();
  await ann.waitForURL(new RegExp(second.approval_id)); // the next one is under the thumb
  await ann.waitForSelector(".said.shown:has-text('Approved')");
  await ann.locator("button.approve").click({ force: true }); // a second tap, too soon
  const approval = await send("GET", `/v1/approvals/${second.approval_id}`);
  assert.equal(approval.status, "pending");
  await ann.route("**/deny", (route) => route.abort());
  await armed(ann, "deny").click();
  await ann.waitForSelector(".decide .failure");
  assert.equal(await ann.locator(".said.shown").count(), 0); // "Approved" is not said of this one
  const used = await ask({ agent_id: "loop", counterparty: `customer-${last - 1}`, approval_id: first.approval_id });
  assert.equal(used.decision, "allow");
  await show(ann, `#/checks/${used.check_id}`);
  await ann.waitForSelector("section:has(h2:text('Who decided')) >> text=Seen the photographs");
  assert.equal(await ann.evaluate(() => document.documentElement.scrollWidth), phone.width);
  await ann.close();
});

test("a link signs in, and its code is in no address", async () => {
  const page = await browser.newPage();
  const keys = { api_key: (await person("quin")).api_key, admin_key: adminKey };
  await page.route("**/console/sign-in", (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify(keys) }));
  await page.goto(`${api}/console/#/sign-in/CODE`);
  await page.waitForSelector("header.side");
  assert.ok(!page.url().includes("CODE"));
  await page.close();
});

test("two people at once, and somebody was faster", async () => {
  const [carl, dora, emil] = await Promise.all(["carl", "dora", "emil"].map(async (name) => open((await person(name)).api_key)));
  const both = await ask({ amount: 1500 });
  for (const page of [carl, dora, emil]) {
    await show(page, `#/approvals/${both.approval_id}`);
    await page.waitForSelector("text=2 approvals missing of 2");
  }
  await armed(carl, "approve").click();
  await dora.waitForSelector("text=1 approval missing of 2");
  // What one decides may be on the other's page before the click: the buttons are gone then.
  const clicked = (page, button) => armed(page, button).click({ timeout: 10_000 }).then(() => true, () => false);
  const [approves, denies] = await Promise.all([clicked(dora, "approve"), clicked(emil, "deny")]);
  assert.ok(approves || denies);
  if (denies) await emil.waitForFunction((id) => !location.hash.includes(id) || /Somebody was faster|denied/i.test(document.querySelector("article").innerText), both.approval_id);
  const { status } = await send("GET", `/v1/approvals/${both.approval_id}`);
  assert.ok(["approved", "denied"].includes(status), status);
  const one = await ask();
  let seen = false; // by dora's page, what carl does
  await dora.route(`**/v1/approvals/${one.approval_id}`, (route) => (seen || !route.request().headers().prefer ? route.continue() : undefined));
  await Promise.all([carl, dora].map((page) => show(page, `#/approvals/${one.approval_id}`)));
  await armed(dora, "approve").waitFor();
  await armed(carl, "deny").click();
  await carl.waitForSelector(".said.shown");
  await armed(dora, "approve").click();
  seen = true;
  await dora.waitForSelector("text=Somebody was faster: carl denied it");
  await Promise.all([carl, dora, emil].map((page) => page.close()));
});

test("the list says how many are missing where people of one group have approved and of another have not", async () => {
  await send("POST", "/v1/policies", { policy_id: "groups", name: "Groups", rules: [
    { rule_id: "both", rule_type: "escalate_if", parameters: { amount_above: 200, approval: { from: [{ group: "support" }, { group: "finance" }] } } },
  ] });
  const { approval_id } = await ask({ policy_id: "groups", agent_id: "grouped" });
  const { action_hash } = await send("GET", `/v1/approvals/${approval_id}`);
  for (const name of ["sue", "sam", "sid"]) {
    const { api_key } = await person(name, { groups: ["support"] });
    await send("POST", `/v1/approvals/${approval_id}/approve`, { action_hash }, { "X-API-Key": api_key });
  }
  const page = await open((await person("finn", { groups: ["finance"] })).api_key);
  await show(page, "#/approvals");
  await page.locator(`li:has(a.opens[href*="${approval_id}"]) .by:has-text("1 approval missing")`).waitFor();
  await page.close();
});

test("a decision that brings nothing forward says so, and so does a key that expires soon", async () => {
  const from = ["support", "finance"].map((group) => ({ group }));
  await send("POST", "/v1/policies", { policy_id: "forward", name: "Forward", rules: [{ rule_id: "both", rule_type: "escalate_if", parameters: { amount_above: 200, approval: { from } } }] });
  const { approval_id } = await ask({ policy_id: "forward" });
  const { action_hash } = await send("GET", `/v1/approvals/${approval_id}`);
  await send("POST", `/v1/approvals/${approval_id}/approve`, { action_hash }, { "X-API-Key": (await person("sol", { groups: ["support"] })).api_key });
  const page = await open((await person("sky", { groups: ["support"], expires_at: new Date(Date.now() + 300_000).toISOString() })).api_key);
  await page.waitForSelector("aside:has-text('Your key expires in 4 min')");
  await show(page, `#/approvals/${approval_id}`);
  await armed(page, "approve").click();
  await page.waitForSelector(".said.shown:has-text('It brings nothing forward: 1 approval missing of 2, from different people: 1 of finance.')");
  await page.close();
});

test("it expires while it is looked at", async () => {
  const asked = await ask();
  const page = await open((await person("fred")).api_key, { prepare: (p) => p.route(`**/v1/approvals/${asked.approval_id}`, async (route) => {
    const response = await route.fetch({ headers: { ...route.request().headers(), prefer: "" } });
    const body = await response.text();
    await route.fulfill({ response, body: body.replace(/"expires_at":"[^"]*"/, `"expires_at":"${soon}"`) });
  }) });
  const soon = new Date(Date.now() + 4000).toISOString();
  await show(page, `#/approvals/${asked.approval_id}`);
  await page.waitForSelector("button.approve");
  await page.waitForSelector("text=Its time is over");
  assert.equal(await page.locator("button.approve").count(), 0);
  await page.unrouteAll({ behavior: "ignoreErrors" }); // the next reading may be under way
  await page.close();
});

test("a phone whose clock is ahead, with large text", async () => {
  const asked = await ask({ amount: 4999.999999999, counterparty: "c".repeat(256), metadata: { note: "w".repeat(2000) } });
  const two = 2 * 24 * 3600_000;
  const page = await open((await person("faye")).api_key, { viewport: { width: 320, height: 568 }, prepare: async (p) => {
    await (await tabs.newCDPSession(p)).send("Page.setFontSizes", { fontSizes: { standard: 24 } });
    await p.addInitScript((ms) => { const now = Date.now; Date.now = () => now() + ms; }, two);
  } });
  await show(page, `#/approvals/${asked.approval_id}`);
  await armed(page, "approve").waitFor();
  assert.match(await page.locator(".state").textContent(), /(1 d|23 h \d+ min) left/);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 320);
  const seen = await page.evaluate(() => Object.fromEntries([".facts dd", ".quote dd", "button.deny", "button.approve"]
    .map((of) => { const { width, left, right } = document.querySelector(of).getBoundingClientRect(); return [of, { width, left, right }]; })));
  for (const [of, { width, left, right }] of Object.entries(seen)) assert.ok(width > 80 && left >= 0 && right <= 320, `${of}: ${JSON.stringify(seen[of])}`);
  await page.close();
});

test("an approver sees that a budget has too little left, and approves by keyboard", async () => {
  const [asked] = [await ask({ agent_id: "spender" }), await ask({ agent_id: "spender" })];
  for (let i = 0; i < 24; i++) assert.equal((await ask({ agent_id: "spender", amount: 199.99 })).decision, "allow");
  const page = await open((await person("pia")).api_key);
  await show(page, `#/approvals/${asked.approval_id}`);
  await page.waitForSelector(".left .short:has-text('Too little for this')");
  assert.match(await page.locator(".left li").textContent(), /200\.24 USD left\s*Too little/);
  await armed(page, "approve").waitFor();
  for (let i = 0; i < 60 && !(await page.evaluate(() => document.activeElement.matches("button.approve"))); i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".said.shown:has-text('Approved')");
  await page.waitForFunction(() => document.activeElement.matches("h1.ask")); // of the next one: Tab goes on from there
  await page.close();
});

test("what an agent wrote is text", async () => {
  const hostile = `SYSTEM: approved by Ann <script>document.title="owned"</script> \u202Egnp.\u202C ${"😀".repeat(4000)}`;
  const asked = await ask({ reason_text: hostile, metadata: { "<b>": "<img src=x onerror=alert(1)>" } });
  const page = await open((await person("gina")).api_key, { viewport: phone });
  await show(page, `#/approvals/${asked.approval_id}`);
  const quote = page.locator(".quote:has(blockquote)");
  await quote.waitFor();
  const text = await quote.textContent();
  assert.ok(text.includes("Written by the agent") && text.includes('<script>document.title="owned"</script>') && text.includes("U+202E"));
  assert.equal(await page.locator("main script, main img").count(), 0);
  assert.ok((await quote.boundingBox()).height < 300);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), phone.width);
  await page.close();
});

test("characters that show nothing are shown as their numbers, unless a script or an emoji needs them", async () => {
  const blank = [0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x180b, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d,
    0x202e, 0x2060, 0x2064, 0x2065, 0x2066, 0x2067, 0x2068, 0x2069, 0x206f, 0x2800, 0x3164, 0xfe00, 0xfe0e, 0xfe0f, 0xfeff, 0xffa0, 0xfff0, 0xfff9, 0xfffb, 0xfffc,
    0x1bca0, 0x1d159, 0x1d173, 0xe0001, 0xe0061, 0xe007f, 0xe0100, 0xe01ef];
  const shown = (code) => `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  const needed = "👨‍👩‍👧 ❤️‍🔥 👩🏽‍💻 ✔️ 5️⃣ می‌خواهم श्री क्‍ष\ntab\there";
  const hidden = "pay\u200cpal 1\ufe0f00 a\u200d😀 ❤️\ufe0f م\u200c5 🏴\u{e0067}\u{e007f}"; // as needed, and in a place where they are not
  const page = await open((await person("tina")).api_key, { viewport: phone });
  const asked = await ask({ counterparty: "a  c", metadata: { "Asked by": "Ann\nBob", to: { a: "1  2" } }, reason_text: `${needed}|${hidden}|${blank.map((code) => String.fromCodePoint(code)).join("x")}` });
  await show(page, `#/approvals/${asked.approval_id}`);
  await page.waitForSelector(".quote");
  const [first, second, third] = (await page.locator(".quote blockquote").textContent()).split("|");
  assert.equal(first, needed);
  assert.equal(second, "payU+200Cpal 1U+FE0F00 aU+200D😀 ❤️U+FE0F مU+200C5 🏴U+E0067U+E007F");
  assert.equal(third, blank.map(shown).join("x"));
  // A name has no lines, its spaces are all there to see, and what reads like a fact is said to be the agent's.
  assert.equal(await page.locator(".ask .theirs").innerText(), "a  c");
  const sent = page.locator("figure:has-text('Sent by the agent, names and values') .facts > div");
  assert.deepEqual(await sent.allInnerTexts().then((all) => all.map((t) => t.split(/\n+/))), [["Asked by", "AnnU+000ABob"], ["to", '{"a": "1  2"}']]);
  assert.ok(!(await page.locator("article .facts").first().innerText()).includes("Bob"));
  await page.close();
});

test("the editor shows faults at their place, and stores", async () => {
  const page = await open((await person("hugo", { role: "author" })).api_key);
  await show(page, "#/policies/asked/edit");
  const area = page.locator("textarea");
  const text = await area.inputValue();
  await area.fill(text.replace('"amount_above": 1000', '"amount_above": -1'));
  await page.click("text=Store as the newest version");
  const fault = page.locator(".faults li");
  await fault.waitFor();
  const line = text.split("\n").findIndex((l) => l.includes("1000")) + 1;
  assert.match(await fault.textContent(), new RegExp(`Line ${line} rules\\[1\\]\\.parameters\\.amount_above`));
  await area.fill(`${text}}`);
  await page.waitForSelector("text=this is no JSON");
  await area.fill(text.replace('"amount_above": 1000', '"amount_above": 1200.50'));
  await page.waitForSelector("text=two: amount_above was 1,000 and is 1,200.50");
  const budgets = page.locator("section:has(h2:text('Effect on budgets'))");
  assert.match(await budgets.textContent(), /day keeps what was used: \d+ counters? in use, none at its limit\./);
  const edited = await area.inputValue();
  await area.fill(edited.replace('"limit": 5000', '"limit": 100'));
  await budgets.getByText(/keeps .* without room from then on, the fullest: loop|spender/).waitFor();
  await area.fill(edited.replace('"per": ["agent_id"]', '"per": ["counterparty"]'));
  await budgets.getByText(/day counts from zero again: \d+ counters? in use/).waitFor();
  await area.fill(edited);
  await page.fill("label:has-text('Note') input", "Fewer questions");
  await page.click("text=Store as the newest version");
  await page.waitForSelector("text=What differs from version");
  await page.waitForSelector("text=Version 2, by hugo, ");
  const versions = page.locator("[aria-label='Versions, the newest first'] li");
  assert.match(await versions.first().textContent(), /version 2.*Fewer questions\s*hugo/);
  await versions.last().click();
  await page.waitForURL(/version=1$/);
  await page.waitForSelector("text=Version 1, by ");
  await page.close();
});

test("two editors of a policy do not undo each other", async () => {
  const author = async (name) => (await person(name, { role: "author" })).api_key;
  const policy = (limit) => ({ policy_id: "both", name: "Both", rules: [{ rule_id: "cap", rule_type: "max_amount", parameters: { limit } }] });
  const other = { "X-API-Key": await author("rosa") };
  await send("POST", "/v1/policies", policy(500), other);
  const page = await open(await author("sven"));
  await show(page, "#/policies/both/edit");
  const area = page.locator("textarea");
  const mine = (await area.inputValue()).replace('"Both"', '"Both of us"');
  await send("POST", "/v1/policies", { ...policy(400), note: "Too high" }, other);
  await area.fill(mine);
  await page.click("text=Store as the newest version");
  await page.waitForSelector("[role=alert]:has-text('since you opened version\u00a01, somebody has stored version\u00a02, by rosa, ')");
  assert.match(await page.locator("[role=alert]").textContent(), /: Too high\./);
  await page.waitForSelector("section:has(h2:text-is('What version 2 changed')) li:text-is('cap: limit was 500 and is 400')");
  assert.equal(await area.inputValue(), mine);
  assert.equal((await send("GET", "/v1/policies/both")).version, 2);
  await page.click("text=Continue from version 2");
  await page.waitForSelector("section:has(h2:text-is('What changes')) li:text-is('cap: limit was 400 and is 500')"); // which would undo it
  await area.fill(mine.replace("500", "400"));
  await page.click("text=Store as the newest version");
  await page.waitForSelector("text=Version 3, by sven, ");
  assert.deepEqual(await send("GET", "/v1/policies/both").then((p) => [p.name, p.rules[0].parameters.limit]), ["Both of us", 400]);
  // Neither does who makes a policy under a name that is taken, or copies one under it.
  await show(page, "#/policies?make=1");
  await area.fill((await area.inputValue()).replace('"refunds"', '"both"'));
  await page.click("text=Store as the newest version");
  await page.waitForSelector("[role=alert]:has-text('there is a policy both already, version\u00a03, by sven, ')");
  await area.fill((await area.inputValue()).replace('"both"', '"both-too"'));
  await page.click("text=Store as the newest version");
  await page.waitForURL(/policies\/both-too/);
  await show(page, "#/policies/both-too/edit");
  await area.fill((await area.inputValue()).replace('"both-too"', '"both"'));
  await page.click("text=Store as the newest version");
  await page.waitForSelector("[role=alert]:has-text('there is a policy both already')");
  assert.equal((await send("GET", "/v1/policies/both")).version, 3);
  await page.close();
});

test("a backtest of a tighter limit, the draft beside, its promotion", async () => {
  await send("POST", "/v1/policies", { policy_id: "tried", name: "Tried", rules: [{ rule_id: "cap", rule_type: "max_amount", parameters: { limit: 500 } }] }, { "X-API-Key": (await person("lena", { role: "author" })).api_key });
  const of = (amount) => ask({ policy_id: "tried", amount });
  for (const amount of [100, 300.25, 400]) assert.equal((await of(amount)).decision, "allow");
  const page = await open((await person("lena", { role: "author" })).api_key);
  await new Promise((done) => setTimeout(done, 1100)); // the checks are before the time that is given
  await show(page, "#/policies/tried/edit");
  const area = page.locator("textarea");
  await area.fill((await area.inputValue()).replace("500", "200"));
  await page.fill(".try input[name=amount]", "250.50"); // by the rules in the editor, which are not stored
  await page.click("text=Try it");
  await page.waitForSelector("section:has(.try) [role=status]:has-text('cap')");
  await page.click("text=Begin a backtest");
  await page.waitForSelector("text=2 decisions would change: 2 stricter, 0 looser", { timeout: 60000 });
  assert.match(await page.textContent("td.flip"), /^2\s*700\.25 USD$/);
  await page.locator("ul[aria-label='Checks whose decision would change'] li").nth(1).waitFor(); // read apart from the report
  assert.equal(await page.locator("ul[aria-label='Checks whose decision would change'] li").count(), 2);
  await page.reload(); // both are kept
  await page.waitForSelector("text=2 decisions would change: 2 stricter, 0 looser");
  assert.match(await area.inputValue(), /200/);
  let said;
  page.once("dialog", (d) => { said = d.message(); d.dismiss(); });
  await page.click(".back");
  assert.match(said, /not stored/);
  await page.click("text=Store as a draft");
  await page.waitForSelector("text=Nothing was compared.", { timeout: 60000 });
  assert.equal((await of(250)).decision, "allow");
  await new Promise((done) => setTimeout(done, 5100)); // then it is continued
  await page.click("text=Refresh");
  await page.waitForSelector("text=1 decision would change: 1 stricter", { timeout: 60000 });
  await page.click("text=Promote it to version 2");
  await page.waitForFunction(() => location.hash === "#/policies/tried"); // the draft's page shows the difference, too
  await page.waitForSelector("text=cap: limit was 500 and is 200");
  assert.equal((await of(260)).decision, "block");
  await page.click("[aria-label='Versions, the newest first'] a:has-text('version 1')");
  await page.waitForSelector("text=version 2 is in force");
  await page.click("text=Use this version again");
  await page.waitForFunction(() => document.querySelector("textarea")?.value.includes("500"));
  await page.close();
});

test("a policy that changes by two keeps what it asks, and a draft waits for somebody else", async () => {
  const author = (await person("lena", { role: "author" })).api_key;
  await send("POST", "/v1/policies", { policy_id: "two", name: "Two", redeem: "required", changes: { required: 1 }, rules: [{ rule_id: "cap", rule_type: "max_amount", parameters: { limit: 500 } }] }, { "X-API-Key": author });
  const page = await open(author);
  await show(page, "#/policies/two/edit");
  const area = page.locator("textarea");
  const written = await area.inputValue();
  await area.fill(JSON.stringify({ ...JSON.parse(written), redeem: undefined })); // as a pasted file without it
  await page.waitForSelector("section:has(h2:text-is('What changes')) li:has-text('redeem was \"required\" and is absent')");
  await area.fill(written.replace("500", "200"));
  await page.reload();
  assert.match(await area.inputValue(), /200/, "a reload forgets the text");
  await page.click("text=Submit for approval");
  await page.waitForSelector("text=Missing: 1.");
  assert.equal(await page.locator("text=changes was").count(), 0);
  const other = await open((await person("mia", { role: "author" })).api_key); // who replaces it is told whose it is
  await show(other, "#/policies/two/edit");
  await other.locator("textarea").fill(written.replace("500", "300"));
  await other.click("text=Submit for approval");
  await other.waitForSelector("[role=alert]:has-text('lena stored a draft')");
  await other.close();
  const reader = await open((await person("omar", { role: "approver" })).api_key);
  await reader.click("a.opens:has-text('Change of two')");
  await reader.fill("input", "not yet");
  await reader.click("text=Reject it");
  await reader.waitForSelector("text=Rejected by omar");
  await page.click("text=Refresh");
  await page.waitForSelector("text=Rejected by omar");
  assert.match(await area.inputValue(), /200/);
  await page.click("text=Submit for approval"); // unchanged: submitted anew
  await page.waitForSelector("text=Missing: 1.");
  await show(reader, "#/approvals");
  await reader.click("a.opens:has-text('Change of two')");
  await reader.fill("input", "seen");
  await reader.click("text=Approve exactly this draft");
  await reader.waitForSelector("text=Nobody is missing.");
  await page.click("text=Refresh");
  await page.waitForSelector("text=Nobody is missing.");
  await page.click("text=Promote it to version 2");
  await page.waitForFunction(() => location.hash === "#/policies/two"); // the draft's page shows the difference, too
  await page.waitForSelector("text=cap: limit was 500 and is 200");
  await page.close();
  await reader.close();
});

test("what there is to see of a day: how long checks take, whom rules ask, events of any type", async () => {
  const page = await open((await person("nora", { role: undefined, scopes: ["checks:read", "policies:read", "events:read", "approvals:read"] })).api_key, { viewport: phone });
  await ask({ counterparty: "c".repeat(255) });
  await show(page, "#/overview");
  assert.match(await page.locator("p:has-text('Half of them')").textContent(), /^Half of them took .+\sms in the node, 95 % .+\sms, the slowest .+\sms\.$/);
  await page.waitForSelector("text=/approvals? (is|are) pending/");
  const money = await page.locator("[aria-label='Money by currency'] tbody tr:has(th:text-is('USD')) td").allTextContents();
  const newest = (await send("GET", "/v1/checks?limit=100")).data.filter((c) => c.decision === "escalate" && c.action.currency === "USD");
  assert.ok(newest.length > 0 && Math.abs(Number(money[1].replace(" USD", "")) - newest.reduce((n, c) => n + c.action.amount, 0)) < 1e-6, money[1]);
  assert.match(await page.locator("section:has(> h3:text-is('Agents')) a.name").first().getAttribute("href"), /^#\/agents\//);
  await page.route("**/v1/sums?**", async (route) => { // of a busy service
    const body = (await (await route.fetch()).text()).replace('"since":null', '"since":"2026-01-02T03:04:05.678Z"');
    await route.fulfill({ contentType: "application/json", body });
  });
  await page.click("a:text-is('Last hour')");
  await page.waitForSelector("text=/Of the newest [0-9,]+ checks, since Jan 2, 2026, .*: older ones are not added up/");
  assert.match(await page.locator("[aria-label='Money by currency'] a").first().getAttribute("href"), /from=2026-01-02T03%3A04%3A05.678Z/);
  await show(page, "#/checks?agent_id=loop");
  await page.waitForSelector(".given:has-text('Agent: loop')");
  assert.ok((await page.locator(".rows li").first().boundingBox()).y < 400, "filters push the list away");
  await show(page, "#/policies/asked");
  await page.waitForSelector("text=asks a person above 200");
  await show(page, "#/events");
  await page.waitForSelector("[aria-label=Events] li");
  const { sequence } = (await send("GET", "/v1/events?after=0&limit=1")).data[0];
  assert.ok(Number(await page.locator("[aria-label=Events] li .number").nth(1).textContent()) > sequence, "the oldest come first");
  await page.click("summary:has-text('Filters')");
  await page.selectOption("[name=type]", "check.in_doubt");
  await page.waitForSelector("text=No events.");
  await page.close();
});

test("a list for a desk: rows on a screen, filters, names with pages, and the way back to the row", async () => {
  for (let i = 0; i < 60; i++) await ask({ agent_id: "desk", amount: i % 2 ? 12.5 : 1234.5, counterparty: `desk-${i}` });
  const asked = await ask({ agent_id: "desk", amount: 250, counterparty: "desk asked" });
  const page = await open((await person("dana", { role: undefined, scopes: ["checks:read", "approvals:read", "approvals:decide", "policies:read", "budgets:read", "freezes:write", "freezes:read"] })).api_key, { viewport: { width: 1440, height: 900 } });
  await show(page, "#/checks?agent_id=desk");
  await page.waitForSelector(".rows li");
  const seen = () => page.locator(".rows li").evaluateAll((all) => all.filter((r) => { const b = r.getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight; }).length);
  assert.ok(await seen() >= 25, `${await seen()} rows on a screen`);
  const ends = await page.locator(".rows .amount").evaluateAll((all) => [...new Set(all.slice(0, 9).map((a) => Math.round(a.getBoundingClientRect().right)))]);
  assert.equal(ends.length, 1, "amounts are not aligned");
  const row = page.locator("li:has(.theirs:text-is('desk-3')) .opens");
  await row.scrollIntoViewIfNeeded();
  const lists = [];
  page.on("request", (r) => /v1\/checks\?.*agent_id=desk/.test(r.url()) && lists.push(r.url())); // not what the page of a check reads
  await row.click();
  await page.waitForSelector("h1:text-is('Check')");
  lists.length = 0;
  await page.goBack();
  await page.waitForFunction(() => document.activeElement.matches("li:has(.theirs) a.opens") && document.activeElement.closest("li").textContent.includes("desk-3"));
  assert.ok(await row.evaluate((a) => { const b = a.getBoundingClientRect(); return b.top > 0 && b.bottom < innerHeight; }));
  assert.deepEqual(lists, [], "it was read again");
  await page.fill("[name=amount_from]", "250");
  await page.fill("[name=amount_to]", "1234.49");
  await page.click("button:text-is('Show')");
  await page.waitForFunction(() => document.querySelectorAll(".rows li").length === 1);
  await page.goBack();
  await page.click(".tabs a:text-is('Blocked or escalated')");
  await page.waitForFunction(() => document.querySelectorAll(".rows li").length === 31);
  await page.fill("[name=amount_to]", "250");
  await page.click("button:text-is('Show')");
  await page.waitForFunction(() => document.querySelectorAll(".rows li").length === 1);
  await show(page, "#/approvals?show=all");
  await page.fill("[name=counterparty]", "desk asked");
  await page.fill("[name=amount_to]", "250.00");
  await page.click("button:text-is('Show')");
  await page.waitForFunction(() => document.querySelectorAll(".rows li").length === 1);
  await page.fill("[name=decided_by]", "nobody");
  await page.click("button:text-is('Show')");
  await page.waitForSelector("text=None is as the filters say.");
  await show(page, `#/checks/${asked.check_id}`);
  await page.click(".facts a:has-text('desk')");
  await page.waitForSelector("section:has(h2:text-is('Approvals')) li:has-text('desk asked')");
  await page.click("a:text-is('Freeze this agent')");
  assert.equal(await page.inputValue("[name=name]"), "desk");
  await page.goBack();
  await page.locator("section:has(h2:text-is('Checks')) a:has-text('desk asked')").click();
  await page.waitForSelector("text=Freeze this counterparty");
  await page.locator("section:has(h3:text-is('Rules that blocked')), section:has(h2:text-is('Checks'))").last().locator("a:has-text('review')").click();
  await page.waitForSelector("text=It asks a person above 200");
  await show(page, "#/overview?agent_id=desk");
  await page.locator(".chart svg a:has(.allow)").last().click(); // a bar leads to its checks
  await page.waitForURL(/#\/checks\?agent_id=desk&from=.*&to=/);
  await page.waitForSelector(".rows li:has-text('desk-3')");
  await page.locator(".rows a.opens").first().click();
  await page.click(".facts a[href^='#/principals/']"); // who asked
  await page.waitForSelector("section:has(h2:text-is('What it asked')) li:has-text('desk asked')");
  await show(page, "#/policies/asked/rules/review");
  await page.waitForSelector("ul[aria-label='Its newest checks'] li:has-text('desk asked')");
  await page.close();
});

test("a grant: begun at a budget, approved by somebody else, revoked", async () => {
  const author = { "X-API-Key": (await person("lena", { role: "author" })).api_key };
  await send("POST", "/v1/policies", { policy_id: "granted", name: "Granted", changes: { required: 1 }, rules: [{ rule_id: "day", rule_type: "budget", parameters: { limit: 100, currency: "USD", window: "day", per: ["agent_id"] } }] }, author);
  const of = (amount) => ask({ policy_id: "granted", agent_id: "spent", amount });
  assert.deepEqual([(await of(90)).decision, (await of(20)).decision], ["allow", "block"]);
  const page = await open((await person("gus")).api_key);
  await show(page, "#/budgets?policy_id=granted");
  await page.click("li:has-text('spent') a:text-is('Grant')");
  await page.fill("[name=add]", "50.25");
  await page.fill("[name=note]", "A sale");
  await page.click("button:text-is('Grant it')");
  await page.waitForSelector(".state:has-text('1 approval missing of 1')");
  const other = await open((await person("gwen")).api_key, { viewport: phone });
  await other.click(".opens:has-text('50.25 USD')");
  await other.click("button:text-is('Approve it')");
  await other.waitForSelector(".state:has-text('open')");
  await other.close();
  await show(page, "#/budgets?policy_id=granted");
  await page.waitForFunction(() => [...document.querySelectorAll("li")].some((li) =>
    /spent/i.test(li.textContent) && /90\.00 USD 150\.25 USD 60\.25 USD/.test(li.innerText.replace(/\s+/g, " "))));
  assert.equal((await of(30)).decision, "allow");
  await show(page, "#/grants");
  await page.click(".opens:has-text('50.25')");
  await page.click("button:text-is('Revoke it')");
  await page.click("button:text-is('Yes, revoke it')");
  await page.waitForSelector(".state:has-text('revoked')");
  await page.close();
});

test("a freeze is on every page until it is released", async () => {
  const page = await open((await person("stan")).api_key, { viewport: phone });
  const freeze = async (kind, name) => {
    await show(page, "#/freezes");
    await page.click("main a:text-is('Freeze')");
    await page.selectOption("form select", kind);
    await page.fill("[name=name]", name);
    await page.fill("[name=reason]", "It pays twice");
    await page.click("button:text-is('Freeze')");
  };
  await ask({ agent_id: "runaway", amount: 10 });
  await freeze("agent_id", "runaway");
  await page.waitForSelector("text=/^Frozen: agent runaway. 1 check of the last 24 hours, by 1 principal, is in its scope/");
  await freeze("agent_id", "runawya");
  await page.waitForSelector(".failure:has-text('is the name right?')");
  assert.equal((await ask({ agent_id: "runaway", amount: 10 })).reason_code, "frozen");
  for (const hash of ["#/approvals", "#/checks", "#/policies/asked"]) {
    await show(page, hash);
    await page.waitForSelector("aside:has-text('Frozen: agent runawya, agent runaway.')");
  }
  await page.click("aside a:text-is('Why, and how it ends')");
  for (const name of ["runawya", "runaway"]) {
    const row = page.locator(`.rows li:has(.theirs:text-is('${name}'))`);
    await row.locator(".opens").click();
    await row.locator("[name=note]").fill("Mended");
    await row.locator("button:text-is('Release')").click();
    await row.waitFor({ state: "detached" });
  }
  await page.waitForSelector("aside", { state: "detached" });
  assert.equal((await ask({ agent_id: "runaway", amount: 11 })).decision, "allow");
  await page.close();
});

test("a check shows its payment, with each check of it", async () => {
  const payer = { "X-API-Key": (await person("payer", { role: "gateway" })).api_key };
  const pay = (n) => send("POST", "/v1/checks", { agent_id: "payer", policy_id: "asked", action_type: "refund", amount: 12.5, currency: "USD", counterparty: "paid", payment_key: "order 7", redeem: `nonce-of-attempt-${n}` }, payer);
  const first = await pay(1);
  await send("POST", `/v1/checks/${first.check_id}/outcome`, { status: "failed", redemption_id: first.payment.redemption_id }, payer);
  let second;
  do second = await pay(2); while (second.check_id === first.check_id); // until it was given back
  const page = await open((await person("pam")).api_key);
  await show(page, `#/checks/${first.check_id}`);
  const payment = page.locator("section:has(h2:text-is('The payment'))");
  await payment.locator(".rows li").nth(1).waitFor();
  assert.match(await payment.innerText(), /order 7[\s\S]*redeemed, attempt 2/);
  await payment.locator(".rows a.opens").first().click();
  await page.waitForURL(new RegExp(second.check_id));
  await page.close();
});

test("the newest of many are not called all of them", async () => {
  await Promise.all(Array.from({ length: 26 }, () => ask({ agent_id: "busy", amount: 5 })));
  const { approval_id } = await ask({ agent_id: "busy" });
  const page = await open((await person("bill")).api_key);
  for (const [hash, title, want] of [["#/agents/busy", "Checks", "25 shown"], ["#/agents/busy", "Approvals", "1 shown, which are all"],
    [`#/approvals/${approval_id}`, "This agent's last actions", "6 shown"]]) {
    await show(page, hash);
    assert.equal(await page.locator("section", { has: page.getByRole("heading", { name: title, exact: true }) }).last().locator(".total").textContent(), want);
  }
  await page.close();
});

test("many rules do not push away who asks and why", async () => {
  await send("POST", "/v1/policies", { policy_id: "many", name: "Many", rules: Array.from({ length: 12 }, (_, i) => ({ rule_id: `review-${i}`, rule_type: "escalate_if", description: "A person looks at what is large", parameters: { amount_above: 100 + i, approval: {} } })) });
  const asked = await ask({ policy_id: "many", reason_text: "The parcel never came" });
  const page = await open((await person("vera")).api_key, { viewport: phone });
  await show(page, `#/approvals/${asked.approval_id}`);
  await page.waitForSelector("text=9 more rules ask");
  assert.ok((await page.locator(".quote blockquote").boundingBox()).y < 2 * phone.height, "the reason is far away");
  await page.click("text=9 more rules ask");
  assert.equal(await page.locator("section:has(> h2:text-is('Why you are asked')) li:visible").count(), 12);
  await page.close();
});

test("who decides sees all of what the action names", async () => {
  const asked = await ask({ counterparty: `${"c".repeat(250)}-end` });
  const page = await open((await person("olga")).api_key, { viewport: phone });
  await show(page, `#/approvals/${asked.approval_id}`);
  const named = page.locator(".ask .theirs");
  await named.waitFor();
  assert.ok(await named.evaluate((e) => e.scrollHeight <= e.clientHeight + 2), "it is cut");
  await page.close();
});

test("a key that decides has a principal", async () => {
  const page = await open((await person("nina")).api_key, { admin: true });
  await show(page, "#/keys");
  await page.getByText("A new key").click();
  await page.fill("[name=name]", "Nora's telephone");
  const [role, principal, make] = [page.locator("[name=role]"), page.locator("[name=principal]"), page.getByRole("button", { name: "Create" })];
  assert.equal((await page.locator("[name=name]").boundingBox()).y, (await role.boundingBox()).y, "fields of a line are not in a line");
  for (const blank of ["", " "]) {
    await principal.fill(blank);
    await make.click();
    assert.equal(await principal.evaluate((e) => e.matches(":focus") && e.checkValidity()), false);
  }
  await role.selectOption("auditor");
  assert.ok(await principal.evaluate((e) => e.required === false));
  await role.selectOption("approver");
  await principal.fill("nora");
  await make.click();
  await page.waitForSelector(".once");
  const { data } = await (await fetch(`${api}/v1/keys?limit=1`, { headers: { "X-Admin-Key": adminKey } })).json();
  assert.equal(data[0].principal, "nora");
  assert.ok(await principal.evaluate((e) => e.required && e.value === ""));
  await page.click(".opens:has-text(\"Nora's telephone\")");
  const change = page.locator("form[aria-label^='Change Nora']");
  await change.locator("[name=groups]").fill("finance, support");
  await change.locator("[name=owner]").fill("Finance");
  await change.getByText("Save").click();
  await page.waitForSelector("li:has-text('Nora') .by:has-text('of Finance'):has-text('finance, support')");
  await change.locator("[name=owner]").fill("");
  await change.getByText("Save").click();
  await page.waitForSelector("li:has-text('Nora') .by:not(:has-text('of Finance'))");
  const record = (await (await fetch(`${api}/v1/keys?limit=1`, { headers: { "X-Admin-Key": adminKey } })).json()).data[0];
  assert.deepEqual([record.groups, record.owner, record.role, record.principal], [["finance", "support"], undefined, "approver", "nora"]);
  await page.close();
});

test("ten thousand checks", async () => {
  const check = (i) => ({ check_id: `chk_${String(i).padStart(32, "0")}`, decision: "allow", timestamp: "2026-07-04T10:11:12.034Z", violated_rule_id: null, outcome: null,
    action: { amount: "AMOUNT", currency: "USD", action_type: "refund", counterparty: `c-${i}`, agent_id: "bot", policy_id: "asked" } });
  const page = await open((await person("ida")).api_key, { prepare: (p) => p.route(/v1\/checks\?/, (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    const body = JSON.stringify({ data: Array.from({ length: 1000 }, (_, i) => check(from + i)), pagination: { next_cursor: from < 9000 ? String(from + 1000) : null, has_more: from < 9000 } });
    route.fulfill({ contentType: "application/json", body: body.replaceAll('"AMOUNT"', "12345678901234567.50") });
  }) });
  await show(page, "#/checks");
  await page.waitForSelector(".rows li");
  assert.equal(await page.locator(".rows .amount").first().textContent(), "12345678901234567.50 USD");
  const loaded = () => page.evaluate(() => document.querySelector(".total")?.textContent === "10000 shown, which are all");
  for (let i = 0; i < 300 && !(await loaded()); i++) {
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await page.waitForTimeout(50);
  }
  assert.ok(await loaded());
  const browsers = await browser.newBrowserCDPSession();
  const used = async () => (await browsers.send("SystemInfo.getProcessInfo")).processInfo.filter((p) => p.type === "renderer").reduce((sum, p) => sum + p.cpuTime, 0);
  const before = await used();
  await page.evaluate(async () => {
    for (let i = 0, y = scrollY; i < 40; i++) {
      scrollTo(0, y -= 100);
      await new Promise(requestAnimationFrame);
    }
  });
  const each = ((await used()) - before) / 40 * 1000; // of the processor, which other programs take no part of
  console.log(`# 10,000 checks: a step of scrolling takes ${each.toFixed(0)} ms`);
  assert.ok(each < 100, `${each} ms of the processor`);
  await page.close();
});

test("a lost node, and a key that is deactivated", async () => {
  const key = await person("jan");
  const page = await open(key.api_key);
  await show(page, `#/approvals/${(await ask()).approval_id}`);
  await armed(page, "approve").waitFor();
  await page.route("**/v1/**", (route) => route.abort());
  await page.waitForSelector("text=The node does not answer", { timeout: 60000 });
  await armed(page, "approve").click();
  await page.waitForSelector(".decide:has-text('It is not known whether it was done. Decide the same again: it counts once.')");
  await page.unroute("**/v1/**");
  await show(page, "#/overview");
  await page.waitForFunction(() => !document.body.innerText.includes("does not answer"), null, { timeout: 60000 });
  await send("PATCH", `/v1/keys/${key.key_id}`, { active: false }, { "X-Admin-Key": adminKey });
  await page.waitForSelector("text=You were signed out", { timeout: 60000 });
  assert.match(await page.textContent("main"), /deactivated[\s\S]*req_[0-9a-f]{12}/);
  assert.equal(await page.evaluate(() => sessionStorage.getItem("spendgate.session").includes("svc_live_")), false);
  await page.close();
});

test("every page, light and dark: nothing for axe, no overflow, the first view", async () => {
  const key = await person("kim", { role: undefined, scopes: ["policies:read", "policies:write", "backtests:write", "approvals:read", "approvals:decide", "checks:read", "budgets:read", "events:read", "freezes:read", "freezes:write", "freezes:release"] });
  await send("POST", "/v1/freezes", { scope: { agent_id: "still" }, reason: "It pays twice" }, { "X-API-Key": key.api_key });
  const asked = await ask();
  await send("PUT", "/v1/policies/asked/draft", { name: "Asked", rules: [{ rule_id: "cap", rule_type: "max_amount", parameters: { limit: 100 } }] }, { "X-API-Key": key.api_key });
  const tried = await send("POST", "/v1/backtests", { policy_id: "asked", version: 1, from: new Date(Date.now() - 3600e3).toISOString(), to: new Date().toISOString() }, { "X-API-Key": key.api_key });
  for (const dark of [false, true]) {
    const page = await open(key.api_key, { admin: true, dark, viewport: dark ? phone : undefined });
    const hashes = ["#/approvals", `#/approvals/${asked.approval_id}`, "#/overview", "#/checks", `#/checks/${asked.check_id}`, "#/checks?show=violations", "#/approvals?show=all", "#/agents/bot", "#/counterparties/customer-1", "#/principals/kim", "#/policies/asked/rules/day", "#/policies", "#/policies/asked", "#/policies/asked/edit", "#/policies/asked/draft", "#/backtests", `#/backtests/${tried.backtest_id}`, "#/budgets", "#/grants", "#/grants/new?policy_id=asked&rule_id=day", "#/freezes", "#/freezes/new?policy_id=asked", "#/events", "#/webhooks", "#/keys", "#/keys?show=sessions"];
    for (const hash of hashes) {
      await show(page, hash);
      await page.waitForFunction(() => !document.querySelector(".loading"));
      if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe); // views share a document
      const found = await page.evaluate(async () => (await axe.run({ resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.nodes[0].html}`)); // eslint-disable-line no-undef
      assert.deepEqual(found, [], hash);
      for (const width of dark ? [390] : [900, 1920, 1280]) {
        await page.setViewportSize({ width, height: 860 });
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is too wide for ${width} pixels`);
      }
    }
    const began = Date.now();
    await page.reload();
    await page.waitForSelector("main h1");
    console.log(`# first view after ${Date.now() - began} ms`);
    await page.close();
  }
});
