// Package peers measures spendgate side by side with OPA, Cerbos and a service
// over PostgreSQL alone (bench/peers/postgres) on the same workload, judged by
// equivalent policies. It starts all servers itself.
//
// The servers do not do the same work: spendgate authenticates, limits
// rates, guards against duplicates and records every check durably before it
// answers, and its cost includes Redis and PostgreSQL; OPA and Cerbos decide and
// store nothing. The service over PostgreSQL guards against duplicates and records
// checks as durably, on the same PostgreSQL server, whose cost is included; it has no API keys and
// no rate limits. OPA runs without its decision log, Cerbos without its audit
// log and with GOGC=400, which was found to be its best setting.
//
// First each server gets the same actions, of all three decisions, and every
// answer must be right. Then rounds alternate, spendgate, OPA, Cerbos,
// PostgreSQL, spendgate, ..., and ratios are computed round by round, so that
// other work on the machine affects all servers alike. Results are printed and
// written to bench/results.
package peers
