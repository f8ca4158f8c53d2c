//go:build race

package ring

// raced: the race detector makes everything some ten times slower.
const raced = true
