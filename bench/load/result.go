package load

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Result is what one run measured. Times are in the unit that their names say.
type Result struct {
	Name        string  `json:"name"`
	Loop        string  `json:"loop"` // closed or open
	Connections int     `json:"connections"`
	OfferedRate float64 `json:"offered_per_second,omitempty"` // of an open loop
	Seconds     float64 `json:"seconds"`

	Right     uint64            `json:"right_answers"`
	PerSecond float64           `json:"right_answers_per_second"`
	Latency   Latency           `json:"latency_ms"`
	Errors    map[string]uint64 `json:"errors"`
	Refused   uint64            `json:"refused"` // of Errors, with Retry-After
	Refusal   Latency           `json:"refusal_latency_ms"`
	Examples  map[string]string `json:"error_examples,omitempty"`
	// CPU is the processor time by process, in microseconds for each right answer.
	CPU map[string]float64 `json:"cpu_us"`

	NextSerial uint64 `json:"next_serial"`
}

// Latency are percentiles in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Server returns the processor time of all but the generator, in microseconds for
// each right answer.
func (r *Result) Server() float64 {
	var sum float64
	for name, us := range r.CPU {
		if name != Generator {
			sum += us
		}
	}
	return sum
}

// Busy returns how many cores were at work, the generator's share included. What is
// missing to all of them was waited for: a disk, or the scheduler.
func (r *Result) Busy() float64 {
	const second = 1e6 // in microseconds
	return (r.Server() + r.CPU[Generator]) * float64(r.Right) / r.Seconds / second
}

// Failures returns how many answers were wrong or missing.
func (r *Result) Failures() uint64 {
	var sum uint64
	for _, n := range r.Errors {
		sum += n
	}
	return sum
}

func newResult(o *Options, all *Tally, next uint64, cost map[string]time.Duration, took time.Duration) Result {
	r := Result{
		Loop: "closed", Connections: o.Connections, OfferedRate: o.Rate, Seconds: took.Seconds(),
		Right: all.Right, PerSecond: float64(all.InTime) / took.Seconds(),
		Latency: summarise(&all.Latency), Errors: all.Errors, Examples: all.Example,
		Refused: all.Refused.Count(), Refusal: summarise(&all.Refused),
		CPU: make(map[string]float64), NextSerial: next,
	}
	if o.Rate > 0 {
		r.Loop = "open"
	}
	for name, used := range cost {
		if all.Right > 0 {
			r.CPU[name] = float64(used.Microseconds()) / float64(all.Right)
		}
	}
	return r
}

func summarise(h *Histogram) Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Latency{
		Mean: ms(h.Mean()), P50: ms(h.Percentile(50)), P90: ms(h.Percentile(90)),
		P99: ms(h.Percentile(99)), P999: ms(h.Percentile(99.9)), Max: ms(h.Max()),
	}
}

// WriteTable prints results for people, one a line.
func WriteTable(out io.Writer, results []Result) error {
	names := processNames(results)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "run\tconns\tright/s\tp50 ms\tp90\tp99\tp99.9\tmax\t%s\tserver us\tfailed\t\n",
		strings.Join(names, "\t"))
	for i := range results {
		r := &results[i]
		l := r.Latency
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t", r.Name, r.Connections, r.PerSecond,
			l.P50, l.P90, l.P99, l.P999, l.Max)
		for _, name := range names {
			if us, ok := r.CPU[name]; ok {
				fmt.Fprintf(w, "%.1f\t", us)
			} else {
				fmt.Fprint(w, "-\t")
			}
		}
		fmt.Fprintf(w, "%.1f\t%d\t\n", r.Server(), r.Failures())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range results {
		if err := writeFailures(out, &results[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeFailures(out io.Writer, r *Result) error {
	for kind, n := range r.Errors {
		if _, err := fmt.Fprintf(out, "%s: %d times %s: %s\n", r.Name, n, kind, r.Examples[kind]); err != nil {
			return err
		}
	}
	return nil
}

func processNames(results []Result) []string {
	var names []string
	for _, r := range results {
		for name := range r.CPU {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
