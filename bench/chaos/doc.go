// Command chaos injects faults into a fleet and checks the resulting history
// against the contract alone.
//
// Three nodes run behind HAProxy, each with proxies of its own to one Redis and
// one PostgreSQL, all real programs. Agents send new actions, the same action
// through several nodes at once, retries with and without idempotency key, other
// requests under a used key, simulations and reads; an editor posts policy
// versions and an administrator changes API keys. Meanwhile a schedule drawn
// from the seed kills, stops, empties, delays, disconnects and restarts servers. Package
// judge checks the requests, the responses, and the rows of PostgreSQL at the end; on
// a violation the history is kept in a file.
//
// The seed determines the actions and the order of faults, not how they interleave:
// a round that failed may have to be repeated.
//
// With -mutants the service is broken on purpose, one patch at a time, and each
// must be detected.
package main
