// Package audit owns what must outlive a node: checks, violations, policy
// versions and API keys. It is their vocabulary, and the Store that keeps them;
// audit/commit has the Writer, which gathers the records of concurrent checks into
// group commits.
//
// Each subject has a file: its records, what selects them, and the part of the Store that
// keeps them. Who uses a Store takes the parts that it needs.
//
// The Store is the truth; Redis holds only leases on it. What makes the leases
// safe is the fence inside each commit (see Store.Commit).
//
// Two Stores exist, audit/postgres for a fleet and audit/sqlite for the
// embedded single node; audit/audittest holds both to this contract.
package audit
