// Who is signed in. Keys are in memory and, so that a reload does not end it, in the
// session of this tab: no other tab has them, and closing this one forgets them.

const place = "spendgate.session";
let current = null;
const listeners = new Set();

// stored returns what the tab's session keeps under a name, null for nothing; store keeps it, and null removes it. A browser
// that keeps nothing has it in memory alone.
export function stored(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}
export function store(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(value));
  } catch { /* see above */ }
}

// session returns {apiKey, adminKey, cookie, key, ended}: the keys, whether the browser has
// a session instead of the first, its record, and why the one before ended.
export const session = () => (current ??= stored(place) ?? {});

export function setSession(next) {
  current = next;
  store(place, next);
  for (const changed of listeners) changed();
}

// forget has the page read who is signed in when it is loaded again.
export const forget = () => store(place, null);

export const signOut = (ended = null) => setSession(ended ? { ended } : {});

export function onSession(changed) {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

const roles = {
  agent: "checks:write checks:read policies:read outcomes:write budgets:read approvals:read freezes:write",
  author: "policies:read policies:write checks:read budgets:read backtests:write freezes:write freezes:read",
  approver: "approvals:read approvals:decide checks:read policies:read budgets:read budgets:grant freezes:write freezes:read freezes:release",
  executor: "checks:redeem outcomes:write outcomes:release checks:read freezes:write freezes:read",
  gateway: "checks:write checks:redeem outcomes:write outcomes:release checks:read policies:read budgets:read approvals:read freezes:write freezes:read",
  auditor: "checks:read policies:read budgets:read approvals:read events:read freezes:read",
  full: "checks:write checks:read policies:read policies:write budgets:read outcomes:write approvals:read backtests:write events:read freezes:write freezes:read",
};

// roleNames are those that a key may have.
export const roleNames = Object.keys(roles);

// may reports whether the key that is signed in has a scope, "admin" that there is an
// admin key. The API decides; this only spares people what it would refuse.
export function may(scope) {
  const { adminKey } = session();
  return scope === "admin" ? Boolean(adminKey) : has(scope) || Boolean(adminKey && scope.startsWith("freezes:"));
}

// asAdmin reports whether a request needs the admin key because the other has not its scope.
export const asAdmin = (scope) => !has(scope) && may("admin");

function has(scope) {
  const { key } = session();
  if (!key) return false;
  const scopes = key.scopes ?? (roles[key.role ?? "full"] ?? "").split(" ");
  return scopes.includes(scope);
}
