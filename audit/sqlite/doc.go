// Package sqlite is the store of the embedded single node: one file, in
// write-ahead mode with a sync of every commit, so that kill -9 or a power cut
// loses no answered check (G1).
//
// One connection writes, since SQLite allows no second writer. So a
// fence waits for the commits in progress simply by taking its turn. Readers
// have a pool of their own and are never blocked.
//
// Listings count the matching violations one by one, some million a second:
// the store of a fleet keeps counts, but this store is meant for fewer rows.
//
// A write that has begun runs to its end, even if its context is cancelled:
// so its outcome is known, except when the disk itself fails in COMMIT.
package sqlite
