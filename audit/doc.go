// Package audit owns what must outlive a node: checks, violations, policy
// versions and API keys. It defines the Store that keeps them, and the Writer
// that gathers the records of concurrent checks into group commits.
//
// The Store is the truth; Redis holds only leases on it. What makes the leases
// safe is the fence inside each commit (see Store.Commit).
//
// Two Stores exist, audit/postgres for a fleet and audit/sqlite for the
// embedded single node; audit/audittest holds both to this contract.
package audit
