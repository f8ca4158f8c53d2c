// Package stack starts what benchmarks measure: nodes of spendgate on a Redis
// and a PostgreSQL that are already there, and peers. It knows which processes
// the work is done in, so that its cost can be told by component.
package stack
