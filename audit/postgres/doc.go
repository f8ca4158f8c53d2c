// Package postgres is the store of a fleet, and the only package that sends SQL
// to PostgreSQL (15 or newer).
//
// A commit is one buffer, one statement and one wait: a prepared call of the
// function record_checks (the fence, the idempotency keys, the rows) and, around it, of
// functions for what else there is. The call is a transaction of its
// own, which ends with the last byte of the buffer; a statement that compares the checks of
// redemptions which the node has not read comes before it in that transaction. The replies up to then
// decide the outcome, see session.exchange. Two
// COPYs in place of the rows would cost the server a third more in small batches,
// mostly for parsing and for a packet each, and no less in large ones.
//
// A commit is never cancelled: a cancelled wait for a synchronous standby
// succeeds locally (F17). A caller that stops waiting drops the connection, and only
// a look-up after Fence shows the outcome of the commit.
//
// Reads go through a pool and to the primary only. Times that are compared between
// nodes are the server's. The role needs rights only on its own tables, and for
// Migrate the right to create them. Through PgBouncer in transaction mode, add
// default_query_exec_mode=cache_describe to the URL.
package postgres
