package load

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Summary combines the rounds of one run.
type Summary struct {
	Name      string            `json:"name"`
	Rounds    int               `json:"rounds"`
	PerSecond Spread            `json:"right_answers_per_second"`
	P50       Spread            `json:"p50_ms"`
	P90       Spread            `json:"p90_ms"`
	P99       Spread            `json:"p99_ms"`
	P999      Spread            `json:"p999_ms"`
	ServerCPU Spread            `json:"server_cpu_us"`
	CPU       map[string]Spread `json:"cpu_us"`
	Busy      Spread            `json:"cores_busy"` // the generator's share included
	Failures  uint64            `json:"failures"`
	// Ratios are to what was measured in the same rounds.
	Ratios []Ratio `json:"ratios,omitempty"`
}

// Ratio compares a run with another of the same rounds, round by round.
type Ratio struct {
	To         string `json:"to"`
	Throughput Spread `json:"throughput"`
	ServerCPU  Spread `json:"server_cpu"`
	P99        Spread `json:"p99"`
}

// Summarise combines the rounds of one run, which it names. Baselines are the same rounds of the
// runs with which it is compared.
func Summarise(rounds []Result, baselines ...[]Result) Summary {
	s := Summary{
		Name: rounds[0].Name, Rounds: len(rounds), CPU: make(map[string]Spread),
		PerSecond: SpreadOver(rounds, Throughput), ServerCPU: SpreadOver(rounds, (*Result).Server), P99: SpreadOver(rounds, p99),
		P50:  SpreadOver(rounds, func(r *Result) float64 { return r.Latency.P50 }),
		P90:  SpreadOver(rounds, func(r *Result) float64 { return r.Latency.P90 }),
		P999: SpreadOver(rounds, func(r *Result) float64 { return r.Latency.P999 }),
		Busy: SpreadOver(rounds, (*Result).Busy),
	}
	for _, process := range processNames(rounds) {
		s.CPU[process] = SpreadOver(rounds, func(r *Result) float64 { return r.CPU[process] })
	}
	for i := range rounds {
		s.Failures += rounds[i].Failures()
	}
	for _, baseline := range baselines {
		s.Ratios = append(s.Ratios, Ratio{
			To:         baseline[0].Name,
			Throughput: ratioOver(rounds, baseline, Throughput),
			ServerCPU:  ratioOver(rounds, baseline, (*Result).Server),
			P99:        ratioOver(rounds, baseline, p99),
		})
	}
	return s
}

// Processes returns the names of the server's processes in the summaries.
func Processes(summaries []Summary) []string {
	var names []string
	for _, s := range summaries {
		for name := range s.CPU {
			if name != Generator && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// WriteSummaries prints summaries for people: medians, with the extremes over
// the rounds in brackets.
func WriteSummaries(out io.Writer, summaries []Summary) error {
	names := Processes(summaries)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nrun\tright/s\tp50 ms\tp99 ms\tserver CPU us")
	for _, name := range append([]string{Generator}, names...) {
		fmt.Fprint(w, "\t", name)
	}
	fmt.Fprintln(w, "\tcores busy\tfailed")
	for _, s := range summaries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s", s.Name, s.PerSecond, s.P50, s.P99, s.ServerCPU)
		for _, name := range append([]string{Generator}, names...) {
			if cpu, ok := s.CPU[name]; ok {
				fmt.Fprintf(w, "\t%.1f", cpu.Median)
			} else {
				fmt.Fprint(w, "\t-")
			}
		}
		fmt.Fprintf(w, "\t%s\t%d\n", s.Busy, s.Failures)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return writeRatios(out, summaries)
}

func writeRatios(out io.Writer, summaries []Summary) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	headed := false
	for _, s := range summaries {
		for _, r := range s.Ratios {
			if !headed {
				fmt.Fprintln(w, "\nratio, round by round\tthroughput\tserver CPU\tp99")
				headed = true
			}
			fmt.Fprintf(w, "%s / %s\t%s\t%s\t%s\n", s.Name, r.To, r.Throughput, r.ServerCPU, r.P99)
		}
	}
	return w.Flush()
}
