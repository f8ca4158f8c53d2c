//go:build race

package webhook

// raced: the race detector makes everything some ten times slower.
const raced = true
