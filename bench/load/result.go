package load

import (
	"slices"
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

// Busy returns how many cores were at work, including the generator's share. The rest of the cores
// waited for a disk or the scheduler.
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
		Latency: all.Latency.Summary(), Errors: all.Errors, Examples: all.Example,
		Refused: all.Refused.Count(), Refusal: all.Refused.Summary(),
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

// Summary returns the histogram's times, in milliseconds.
func (h *Histogram) Summary() Latency {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Latency{
		Mean: ms(h.Mean()), P50: ms(h.Percentile(50)), P90: ms(h.Percentile(90)),
		P99: ms(h.Percentile(99)), P999: ms(h.Percentile(99.9)), Max: ms(h.Max()),
	}
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
