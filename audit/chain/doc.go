// Package chain makes the audit trail tamper-evident (G8): hashes of rows, and
// per node incarnation a chain over the batches that it committed. It computes
// and does nothing else.
//
// The format is written down in deploy/AUDIT-FORMAT.md, for those who verify
// with a program of their own. What is hashed is the row as it is stored, in
// the form in which PostgreSQL itself sends it (COPY ... FORMAT binary), so that
// a verifier hashes what it reads and decodes nothing.
//
// A chain has one writer, which keeps its head in memory: it reads
// nothing before a commit. Where the writer does not know whether a batch was
// recorded it must end the chain and begin another (see commit.Writer); the
// primary key (chain_id, seq) makes a fork impossible whatever it does.
package chain
