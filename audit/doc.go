// Package audit defines the records that outlive a node: checks, violations, policy
// versions, API keys and the rest. It has their types and the interface Store, which keeps
// them. Package audit/commit has the Writer, which gathers the records of concurrent checks into
// group commits.
//
// Each subject has a file with its records, their filters, and its part of the Store.
// A consumer of a Store declares the parts that it needs.
//
// The Store is the source of truth; Redis holds only leases. The fence inside each
// commit makes the leases safe (see Store.Commit).
//
// There are two Stores, audit/postgres for a fleet and audit/sqlite for the
// embedded single node; audit/audittest tests both against this contract.
package audit
