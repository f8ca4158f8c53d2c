package main

import (
	"fmt"
	"testing"

	"spendgate/bench/load"
)

// Bars are judged by the peers' names: some may be left out.
func TestBarsOfThePeersThatWereMeasured(t *testing.T) {
	ratio := func(to string, cpu float64) load.Ratio {
		return load.Ratio{To: to, Throughput: load.Spread{Median: 1.6}, ServerCPU: load.Spread{Median: cpu}, P99: load.Spread{Median: 0.5}}
	}
	f := func(want string, ratios ...load.Ratio) {
		t.Helper()
		got := ""
		for _, b := range judge(64, load.Summary{Ratios: ratios}) {
			got += fmt.Sprintf("%s %v %v; ", b.Name, b.Measured.Median, b.Met)
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f("", ratio("postgres 64", 0.1))
	f("CPU / Cerbos', 64 connections 0.3 false; CPU / OPA's, 64 connections 0.6 true; "+
		"p99 / OPA's, 64 connections 0.5 true; throughput / OPA's, 64 connections 1.6 true; ",
		ratio("postgres 64", 0.1), ratio("cerbos 64", 0.3), ratio("opa 64", 0.6))
}
