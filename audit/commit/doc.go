// Package commit has the Writer, which gathers the records of concurrent checks
// into group commits. It makes one commit at a time, under the fence of the node incarnation
// that claimed the checks, and each commit is a link of this incarnation's hash chain. A limiter bounds the
// checks in flight (G9), and a commit whose outcome is unknown is resolved by a fence
// and a look-up (F3).
package commit
