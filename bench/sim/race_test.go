//go:build race

package sim

// raced: the race detector makes everything some ten times slower.
const raced = true
