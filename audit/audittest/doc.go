// Package audittest tests every audit.Store against the contract by one suite, and
// measures all of them by one benchmark.
//
// Run and Benchmark take a function that opens a fresh, empty store and closes
// it when the test ends. A store's own package tests the faults that only this store has: a
// lost connection, a killed process.
package audittest
