// Package ring is where whole nodes, the real Authorizer, guard, limiter and
// writer, box against a Redis and a store that fail: before a command, after it
// and in the middle, with late replies and late commands, commands refused
// alone, floods of emptied, restarted and reconnected servers, in virtual time,
// by a schedule drawn from a seed. It has tests only:
//
//	go test ./hotpath/ring -seed 17 -v        one schedule again
//	go test ./hotpath/ring -seeds 10000       many
//
// Delays, faults and the order of requests are drawn from the seed, each for
// itself, so that a seed nearly always plays the same fight; what the Go
// scheduler chooses between two events of the same instant is not repeated.
package ring
