// Package grants searches exhaustively how grants raise the limits of counters while checks are in flight (S91), as package
// model does claims.
//
// There are two nodes with views of the configuration, and a store with one budget, of which a new version of the policy may
// make another counter. People give grants, approve and revoke them; the granter's key loses the right, and has it again. Each of
// these is a change with a number, and all but a new version of the policy are stops. Only the answer to whoever gives a grant
// waits for a new generation: whoever makes another change dies before that.
//
// A check has the timestamp of its beginning. It is judged by its node's view, and its commit compares the last stop and takes
// from the counter. Time moves in ticks, for the ends of grants and of the counter's window.
//
// The promises, where "in force" is what the record says at the commit, at the check's timestamp:
//
//   - no check passes above the limit of its version and what the grants in force add
//   - the record tells by a check's last stop which grants judged it
//   - a check that budgets refuse had no room at some moment of its request, with the grants that were answered
//   - no more grants are open than may be
package grants
