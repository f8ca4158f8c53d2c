// The pages in their order: the path after #/, the title, the scope of the API that it
// needs ("admin": the admin key), and what shows it. A new page is a row and a file.
import { Approvals } from "./pages/approvals.js";
import { Checks } from "./pages/checks.js";
import { Violations } from "./pages/violations.js";

export const pages = [
  { path: "approvals", title: "Approvals", scope: "approvals:read", show: Approvals },
  { path: "checks", title: "Checks", scope: "checks:read", show: Checks },
  { path: "violations", title: "Violations", scope: "checks:read", show: Violations },
];
