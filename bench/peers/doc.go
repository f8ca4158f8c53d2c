// Command peers measures spendgate side by side with OPA, Cerbos and a service
// over PostgreSQL alone (bench/peers/postgres) on the same workload, judged by
// equivalent policies. It starts all servers itself.
//
// What is compared is not the same work: spendgate authenticates, limits
// rates, guards against duplicates and records every check durably before it
// answers, and its cost includes Redis and PostgreSQL; OPA and Cerbos decide and
// keep nothing. The service over PostgreSQL guards against duplicates and records
// as durably, on the same server, whose cost is included; it has no API keys and
// no rate limits. OPA runs without its decision log, Cerbos without its audit
// log and with GOGC=400, the setting that was found to be its best.
//
// First each server gets the same actions, of all three outcomes, and every
// answer must be the right one. Then rounds alternate, spendgate, OPA, Cerbos,
// PostgreSQL, spendgate, ..., and ratios are taken round by round, so that
// whatever else the machine does touches all alike. Results are printed and
// written to bench/results.
package main
