// Package deploy tests the files beside it, which run spendgate in production
// and in tests: alerts, dashboard and runbook against each other and against
// what nodes measure (monitoring_test.go), and the fleet on one machine
// (fleet_test.go). tidy_test.go keeps the source of all packages tidy. There is
// no other code.
package deploy
