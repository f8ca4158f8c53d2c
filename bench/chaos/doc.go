// Command chaos breaks a fleet in every way it knows and has a judge that knows
// only the contract look for what came out wrong.
//
// Three nodes run behind HAProxy, each with proxies of its own to one Redis and
// one PostgreSQL: real programs all. Agents send new actions, the same action
// from several sides at once, retries with and without idempotency key, other
// requests under a used key, simulations and reads; an editor posts policy
// versions and an administrator changes API keys. Meanwhile a schedule drawn
// from the seed kills, stops, empties, delays, cuts off and restarts. What was
// sent and answered, and what stands in PostgreSQL in the end, goes to package
// judge; on a violation the history is kept in a file.
//
// The seed fixes what agents do and which faults are injected in which order.
// It does not fix how they meet: a round that failed may have to be repeated.
//
// With -mutants the service is broken on purpose, in one way at a time, and
// each must be caught: else the judge proves nothing.
package main
