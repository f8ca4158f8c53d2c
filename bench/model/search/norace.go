//go:build !race

package search

// Raced says that the race detector is on.
const Raced = false
