// Package pipeline carries the commands of all waiting requests to Redis in one
// round trip.
//
// One batch is in flight at a time, on one connection to the master: a request
// is sent at once when the connection is idle, else with all others that wait
// when the batch in flight returns. Every batch reads the time and one value
// first and another value last, and the caller says by these whether the
// replies in between hold (see Options.Verify). What nobody waits for, the
// deferred commands, goes with the next batch and is kept while Redis is away.
//
// The package knows Redis, where its master is, and how requests are counted in
// rate windows. It does not know what the names and values mean.
package pipeline
