// Package sqlite is the store of the embedded single node: one file, in
// write-ahead mode with a sync of every commit, so that kill -9 or a power cut
// loses no answered check (G1).
//
// One connection writes; SQLite allows no second writer anyway, so that a
// fence waits for the commits in progress simply by taking its turn. Readers
// have a pool of their own and are never blocked.
//
// Listings count the violations that match one by one, some million a second:
// the store of a fleet keeps counts, this one is meant for less.
//
// A write runs to its end once it has begun, whatever becomes of its context:
// its outcome is known then, except when the disk itself fails in COMMIT.
package sqlite
