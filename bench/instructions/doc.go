// Command instructions counts the instructions that a check takes, of the node and of
// PostgreSQL, in builds of spendgate that are in .bin: a measure that what else the
// machine does hardly changes. bench/README.md says what is counted.
package main
