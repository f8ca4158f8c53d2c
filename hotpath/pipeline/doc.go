// Package pipeline carries the commands of all waiting requests to Redis in one
// round trip.
//
// One batch is in flight at a time, on one connection to the master: a request
// is sent at once when the connection is idle, else together with all other waiting
// requests when the batch in flight returns. Every batch reads the time and one value
// first and another value last, from which the caller decides whether the
// replies in between are valid (see Options.Verify). Deferred commands, for which nobody
// waits, are sent with the next batch and are kept while Redis is away.
//
// The package knows Redis, where its master is, and how requests are counted in
// rate windows. It does not know what the names and values mean.
package pipeline
