// Package violations measures listings of violations, with their total_count,
// in tables of 10^5, 10^6 and 10^7 generated violations, and what the
// indexes for these listings cost writers. It starts a PostgreSQL itself,
// needs some 8 GB of disk for some minutes, and writes
// bench/results/violations.json.
//
//	measure violations          measure
//	measure violations -table   print existing results
//	measure violations -checks  load -rows checks of a month, 7 GB, and measure their
//	                    statistics, listings and backtests of all of them
package violations
