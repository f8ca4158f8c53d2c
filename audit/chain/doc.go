// Package chain computes the hashes that make the audit trail tamper-evident (G8): a hash
// of each row, and for each node incarnation a chain over the batches that it committed.
// It does no IO.
//
// docs/audit/format.md describes the format, for those who verify
// with a program of their own. The hash covers the row as it is stored, in
// the form in which PostgreSQL sends it (COPY ... FORMAT binary), so that
// a verifier hashes what it reads and decodes nothing.
//
// A chain has one writer, which keeps the head in memory and so reads
// nothing before a commit. A writer that does not know whether a batch was
// recorded must end the chain and begin another one (see commit.Writer). Whatever the
// writer does, the primary key (chain_id, seq) makes a fork impossible.
package chain
