// Package deploy tests the files beside it: alerts, dashboard and runbook
// against each other and against the nodes' metrics (monitoring_test.go), and
// the fleet on one machine (fleet_test.go, fleet_metrics_test.go). tidy_test.go and layers_test.go check
// the source of all packages. There is no other code.
package deploy
