// Package job runs backtests. They are rows of the store: a node that holds one reads
// the history, has package backtest replay it, and records report and flips. One that is
// killed loses its lease, and another begins anew; the result is the same.
package job
