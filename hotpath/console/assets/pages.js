// The pages in their order: the path after #/, the title, the scope of the API that it needs ("admin": the admin key), what shows
// it, and the group of the navigation in which it is, or of which page it is a tab. A new page is a row and a file.
import { About } from "./pages/about.js";
import { Approvals } from "./pages/approvals.js";
import { Backtests } from "./pages/backtests.js";
import { Budgets } from "./pages/budgets.js";
import { Checks } from "./pages/checks.js";
import { Events } from "./pages/events.js";
import { Freezes } from "./pages/freezes.js";
import { Grants } from "./pages/grants.js";
import { Keys } from "./pages/keys.js";
import { Overview } from "./pages/overview.js";
import { Policies } from "./pages/policies.js";
import { Webhooks } from "./pages/webhooks.js";

export const pages = [
  { path: "approvals", title: "Approvals", scope: "approvals:read", show: Approvals, group: "Decide" },
  { path: "overview", title: "Overview", scope: "checks:read", show: Overview, group: "Look" },
  { path: "checks", title: "Checks", scope: "checks:read", show: Checks, group: "Look" },
  { path: "agents", title: "Agent", scope: "checks:read", show: About, within: "checks" },
  { path: "counterparties", title: "Counterparty", scope: "checks:read", show: About, within: "checks" },
  { path: "principals", title: "Principal", scope: "checks:read", show: About, within: "checks" },
  { path: "events", title: "Events", scope: "events:read", show: Events, group: "Look" },
  { path: "policies", title: "Policies", scope: "policies:read", show: Policies, group: "Rules" },
  { path: "backtests", title: "Backtests", scope: "backtests:write", show: Backtests, group: "Rules" },
  { path: "budgets", title: "Budgets", scope: "budgets:read", show: Budgets, group: "Rules" },
  { path: "grants", title: "Grants", scope: "budgets:read", show: Grants, within: "budgets" },
  { path: "freezes", title: "Freezes", scope: "freezes:read", show: Freezes, group: "Operate" },
  { path: "webhooks", title: "Webhooks", scope: "admin", show: Webhooks, group: "Operate" },
  { path: "keys", title: "Keys", scope: "admin", show: Keys, group: "Operate" },
];
