//go:build race

package search

// Raced says that the race detector is on, which makes everything some ten times slower, and finds nothing in
// a search's one goroutine.
const Raced = true
