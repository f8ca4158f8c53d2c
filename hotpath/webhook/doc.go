// Package webhook delivers events to the endpoints that an operator registered
// (S52), as Standard Webhooks 1.0 says. README.md is for those who receive them.
//
// It is a small worker over the feed of events and no queue of jobs: a job per
// event and endpoint would have to be written by the commits of checks, or by a
// second sequencer. How far the feed was delivered is one number per endpoint, and
// what failed is tried again from a row of its own.
//
// A node delivers to the endpoints that it holds by leases of the store, up to
// Options.InFlight attempts at a time each. No attempt outlasts the lease that it began under, so
// two nodes never deliver to one endpoint at once; what a killed node held goes to
// another when the lease is over. An attempt that was not recorded is made again:
// at least once.
package webhook
