//go:build !race

package e2e_test

// raced: the tests, and therefore the nodes, have the race detector.
const raced = false
