// The pages in their order: the path after #/, the title, the scope of the API that it
// needs ("admin": the admin key), what shows it, and of which page it is a tab. A new page is a row and a file.
import { AgentPage, CounterpartyPage } from "./pages/about.js";
import { Approvals } from "./pages/approvals.js";
import { Overview } from "./pages/overview.js";
import { Checks } from "./pages/checks.js";
import { Policies } from "./pages/policies.js";
import { Backtests } from "./pages/backtests.js";
import { Budgets } from "./pages/budgets.js";
import { Events } from "./pages/events.js";
import { Freezes } from "./pages/freezes.js";
import { Webhooks } from "./pages/webhooks.js";
import { Grants } from "./pages/grants.js";
import { Keys } from "./pages/keys.js";

export const pages = [
  { path: "approvals", title: "Approvals", scope: "approvals:read", show: Approvals },
  { path: "overview", title: "Overview", scope: "checks:read", show: Overview },
  { path: "checks", title: "Checks", scope: "checks:read", show: Checks },
  { path: "agents", title: "Agent", scope: "checks:read", show: AgentPage, within: "checks" },
  { path: "counterparties", title: "Counterparty", scope: "checks:read", show: CounterpartyPage, within: "checks" },
  { path: "policies", title: "Policies", scope: "policies:read", show: Policies },
  { path: "backtests", title: "Backtests", scope: "backtests:write", show: Backtests },
  { path: "budgets", title: "Budgets", scope: "budgets:read", show: Budgets },
  { path: "grants", title: "Grants", scope: "budgets:read", show: Grants, within: "budgets" },
  { path: "freezes", title: "Freezes", scope: "freezes:read", show: Freezes },
  { path: "events", title: "Events", scope: "events:read", show: Events },
  { path: "webhooks", title: "Webhooks", scope: "admin", show: Webhooks },
  { path: "keys", title: "Keys", scope: "admin", show: Keys },
];
