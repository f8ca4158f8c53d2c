package load

import (
	"slices"
	"strconv"
)

// Spread is a figure measured in several rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf returns the median and the extremes; zeros of no values.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{median, sorted[0], sorted[len(sorted)-1]}
}

// SpreadOver returns the spread of a figure of the results.
func SpreadOver(results []Result, figure func(*Result) float64) Spread {
	values := make([]float64, len(results))
	for i := range results {
		values[i] = figure(&results[i])
	}
	return SpreadOf(values)
}

// ratioOver returns the spread of a figure's ratio, round by round, because a disturbance of the
// machine in one round affects both.
func ratioOver(of, to []Result, figure func(*Result) float64) Spread {
	var values []float64
	for i := range min(len(of), len(to)) {
		if base := figure(&to[i]); base > 0 {
			values = append(values, figure(&of[i])/base)
		}
	}
	return SpreadOf(values)
}

// String shows the median and the extremes.
func (s Spread) String() string {
	if s.Min == s.Max {
		return digits(s.Median)
	}
	return digits(s.Median) + " [" + digits(s.Min) + ".." + digits(s.Max) + "]"
}

// digits shows three digits at least, and no exponent.
func digits(v float64) string {
	decimals := 2
	for bound := v; bound >= 10 && decimals > 0; bound /= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// Throughput returns a figure for SpreadOver and ratioOver.
func Throughput(r *Result) float64 { return r.PerSecond }

func p99(r *Result) float64 { return r.Latency.P99 }
