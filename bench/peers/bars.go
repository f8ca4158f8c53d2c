package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"spendgate/bench/load"
)

// bar is what the project set out to reach against a peer, and what it
// reached in this run.
type bar struct {
	Name     string      `json:"name"`
	AtMost   float64     `json:"at_most,omitempty"`
	AtLeast  float64     `json:"at_least,omitempty"`
	Measured load.Spread `json:"measured"`
	Met      bool        `json:"met"` // by the median
}

// judge compares spendgate's ratios, to OPA and to Cerbos, with the bars for
// that many connections; there are none for other numbers, and for peers that
// were not measured.
func judge(connections int, s load.Summary) []bar {
	limits := map[int]struct{ cpuOPA, cpuCerbos, throughputOPA float64 }{
		16:  {throughputOPA: 1},
		64:  {0.6, 0.25, 1.5},
		256: {0.45, 0.2, 2},
	}
	limit, ok := limits[connections]
	if !ok {
		return nil
	}
	to := make(map[string]load.Ratio)
	for _, r := range s.Ratios {
		peer, _, _ := strings.Cut(r.To, " ")
		to[peer] = r
	}
	opa, hasOPA := to["opa"]
	cerbos, hasCerbos := to["cerbos"]
	name := func(what string) string { return fmt.Sprintf("%s, %d connections", what, connections) }
	var bars []bar
	atMost := func(what string, limit float64, measured load.Spread) {
		if limit > 0 {
			bars = append(bars, bar{Name: name(what), AtMost: limit, Measured: measured, Met: measured.Median <= limit})
		}
	}
	if hasCerbos {
		atMost("CPU / Cerbos'", limit.cpuCerbos, cerbos.ServerCPU)
	}
	if !hasOPA {
		return bars
	}
	atMost("CPU / OPA's", limit.cpuOPA, opa.ServerCPU)
	atMost("p99 / OPA's", 1, opa.P99)
	return append(bars, bar{
		Name: name("throughput / OPA's"), AtLeast: limit.throughputOPA, Measured: opa.Throughput,
		Met: opa.Throughput.Median >= limit.throughputOPA,
	})
}

func writeBars(out io.Writer, bars []bar) {
	if len(bars) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nbar\tlimit\tmeasured\t")
	for _, b := range bars {
		limit := fmt.Sprintf("at most %.3g", b.AtMost)
		if b.AtLeast > 0 {
			limit = fmt.Sprintf("at least %.3g", b.AtLeast)
		}
		verdict := "met"
		if !b.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.Name, limit, b.Measured, verdict)
	}
	_ = w.Flush() // as the other tables, to standard output
}
