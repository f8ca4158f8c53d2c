// Package webhook delivers events to the endpoints that an operator registered
// (S52), as Standard Webhooks 1.0 says. docs/use/webhooks.md is for those who receive them.
//
// The package is a small worker that reads the feed of events, not a queue of jobs: a job per
// event and endpoint would have to be written by the commits of checks, or by a
// second sequencer. The position up to which the feed was delivered is one number per endpoint, and
// each event whose delivery failed has a row, from which it is tried again.
//
// A node delivers to the endpoints whose leases it holds in the store, up to
// Options.InFlight attempts at a time each. No attempt lasts longer than the lease under which it began, so
// two nodes never deliver to one endpoint at once. When a lease of a killed node ends,
// another node takes the endpoint. An attempt that was not recorded is made again:
// delivery is at least once.
package webhook
