// Package postgres is the store of a fleet, and the only place that speaks SQL
// to PostgreSQL (14 or newer).
//
// A commit is one buffer, one statement and one wait: a prepared call of the
// function record_checks (the fence, the idempotency keys, the rows), of
// record_redemptions, or of commit_checks if there is more, a transaction of its
// own that ends with the buffer's last byte. What the connection showed by then
// decides the outcome, see session.exchange. Two
// COPYs in place of the rows cost the server a third more at small batches,
// mostly for parsing and for a packet each, and no less at large ones.
//
// A commit is never cancelled: a cancelled wait for a synchronous standby
// succeeds locally (F17). Whoever stops waiting drops the connection, and only
// a look-up behind Fence shows what became of it.
//
// Reads go through a pool and to the primary only. Times that matter between
// nodes are the server's; the role needs no more than its own tables, and for
// Migrate the right to create them. Through PgBouncer in transaction mode, add
// default_query_exec_mode=cache_describe to the URL.
package postgres
