// Package audittest holds every audit.Store to its contract by one suite, and
// measures them by one benchmark.
//
// Run and Benchmark take a function that opens a fresh, empty store and closes
// it when the test ends. A store's own package adds what only it can suffer: a
// lost connection, a killed process.
package audittest
