// Package deploy holds no code: beside it stand the files that run spendgate
// in production and in tests, and the test that keeps the source tidy.
package deploy
