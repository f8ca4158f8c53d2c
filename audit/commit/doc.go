// Package commit has the Writer, which gathers the records of concurrent checks
// into group commits: one commit at a time, under the fence of the node incarnation
// that claimed them, each a link of that incarnation's hash chain. A limiter bounds the
// checks in flight (G9), and a commit whose outcome is unknown is resolved by a fence
// and a look-up (F3).
package commit
