// Package guard decides who may record a check: one per idempotency key, one
// per fingerprint and window, over all nodes (G2, G3). docs/internals/protocol.md describes how, with the
// interleavings that the F numbers name; package model searches them exhaustively, and package sim plays them.
//
// # Who is authoritative
//
// The store is the source of truth. A claim in Redis is a lease: it avoids conflicts and
// is answered fast, but it proves nothing by itself, since its holder may be slow or
// dead, or Redis may have lost it. The fence inside each commit makes leases
// safe: the store refuses checks claimed in an epoch that has ended, or
// by a node incarnation that was fenced (see audit.Store.Commit).
//
// # The states of an attempt
//
//	the key is another's          wait for it: replay, refuse, or take it over
//	the fingerprint is another's  recorded: duplicate, replay, or succeed it;
//	                              else wait for it, or take it over
//	the fingerprint is its own    windows lazy, or taken over: look it up; pass
//
// Only the owner of the key, or a check without one, may commit, and a duplicate
// block always names a recorded check. Nobody waits for a key while holding a
// fingerprint, so there is no cycle of waiting.
//
// Package pipeline carries the claims, and with them the rate counters and the
// configuration's generation.
//
// # What it does not promise
//
// Rate windows do not survive the loss of Redis. Ages follow Redis' clock.
package guard
