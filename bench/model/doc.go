// Package model searches the protocol of claims exhaustively: every order in
// which checks, nodes, Redis and the store can take their steps, and every
// fault between two of them, within small bounds.
//
// A step is one command to Redis, one statement to the store, or one step of a
// transaction there, and is named after the function of package guard (or
// hotpath, or audit) that takes it. Staleness is not time: a claim may be considered
// stale at any moment, so that no promise rests on a timeout. Time moves in
// ticks, for windows of different lengths and for expiry.
//
// Explore visits all states, nearest first, and returns the shortest way to one
// that breaks a promise:
//
//   - at most one pass per fingerprint and window, and one answered pass (G3)
//   - a duplicate names a recorded check (G3)
//   - one row and one answer per idempotency key (G2)
//   - nothing is answered unrecorded (G1)
//   - no check is judged by a version older than one answered before it began (G4)
//   - recorded allows, less what was released, are within every counter's limit,
//     and counters are what the record says
//   - a block as exceeded is true of some moment of its request
//   - once the report that releases a check was answered, an identical action is
//     neither its duplicate nor answered with it
//   - an approval lets at most one check pass, by the rules that people saw, and is
//     neither denied nor expired (G13)
//   - a check is redeemed for one at most, in time, before any report; from then on its
//     redeemer alone reports, until it is in doubt (G14)
//   - every check can end, from every state, if nothing more fails (G7)
//
// States are distinguished by a hash of 128 bits. Objects without references are forgotten and
// their numbers reused, so that the space is finite although checks may start over endlessly.
//
// A Mutation leaves out one defence. That the search finds each mutation shows what the search can
// detect, and what the defence is for.
//
// The model leaves out: rate limits, clocks that jump (F23), the expiry of
// idempotency keys, retries of deferred commands (which are carried out in any order
// instead), several buckets (all names lie in one slot), and batches or commits of several checks
// (except for F62). Of approvals it leaves out who decides, and how many must: one row lock
// holds each decision together, which audittest tests. Of budgets it leaves out checks that
// take nothing (an escalation), charges without a condition, and releases of a part.
package model
