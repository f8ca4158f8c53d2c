// Package instructions counts the processor instructions that a check takes in the node and in
// PostgreSQL, for builds of spendgate in .bin. Other work on the machine
// hardly changes this measure. docs/internals/bench.md says what is counted.
package instructions
