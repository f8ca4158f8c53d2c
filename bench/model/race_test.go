//go:build race

package model

// raced: the race detector makes everything some ten times slower.
const raced = true
