// Package guard decides who may record a check: one per idempotency key, one
// per fingerprint and window, over all nodes (G2, G3), and carries the rate
// counters and the configuration's generation along in the same round trip.
//
// # Who is authoritative
//
// The store is the truth. A claim in Redis is a lease: it spares conflicts and
// answers fast, but it proves nothing by itself, since its holder may be slow,
// dead, or on a Redis that lost it. What makes leases safe is the fence inside
// each commit: the store refuses checks claimed in an epoch that is over, and
// by a node incarnation that was fenced (see audit.Store.Commit).
//
// # The states of an attempt
//
//	k is foreign   release f, wait on k: recorded -> replay or refusal;
//	               gone -> claim again; stale -> fence its node, take k over
//	f is foreign   recorded: aged out -> take it over; my own key's -> replay;
//	               orphan and the same request -> replay once; else duplicate
//	               not recorded: wait; gone -> claim again; stale -> fence its
//	               node, look again, take it over
//	f is mine      windows lazy, or f was taken over: look the fingerprint up
//	               in the store; found -> hand f to its check; else pass
//
// Only the owner of k, or a check without key, may commit, and a duplicate
// block always names a recorded check. Nobody waits on k while holding f, so
// there is no cycle of waiting.
//
// Names (k, f, m, g, r) and transitions are those of the protocol described in
// PROTOCOL.md, as are the F numbers.
// Package model searches them exhaustively, and package sim plays them.
//
// # What it does not promise
//
// Rate windows do not survive the loss of Redis. Ages follow Redis' clock.
package guard
