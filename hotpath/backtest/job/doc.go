// Package job runs backtests, which are rows of the store. The node that holds the lease of a
// backtest reads the history, has package backtest replay it, and records report and flips. If the
// node is killed its lease ends, and another node starts again; the result is the same.
package job
