// Package sim simulates whole nodes in virtual time: the real Authorizer, guard,
// limiter and writer over a fake Redis and one SQLite store, which they share
// and which is verified in the end. A seed draws the schedule of faults: before,
// after and in the middle of commands and commits, late replies, single commands
// refused, servers emptied, restarted or failed over. It has only tests:
//
//	go test ./bench/sim -seed 17 -v        one schedule again
//	go test ./bench/sim -seeds 10000       many
//
// Delays, faults and the order of requests each have a random source of their
// own, so a seed nearly always gives the same schedule; the order in which the Go scheduler
// runs two events of the same instant is not repeated.
package sim
