// Package postgres is the store of a fleet, and the only place that speaks SQL
// to PostgreSQL (14 or newer).
//
// A commit is one buffer and one wait: BEGIN, the fence (enter), the
// idempotency keys (take_keys), binary COPY of the rows, COMMIT, and the rows
// themselves leave in one write; then the answers are read to the end. What
// the connection showed by then decides the outcome, see session.exchange.
//
// A commit is never cancelled: a cancelled wait for a synchronous standby
// succeeds locally (F17). Whoever stops waiting drops the connection, and only
// a look-up behind Fence tells what became of it.
//
// Reads go through a pool and to the primary only. Times that matter between
// nodes are the server's; the role needs no more than its own tables, and for
// Migrate the right to create them. Through PgBouncer in transaction mode, add
// default_query_exec_mode=cache_describe to the URL.
package postgres
