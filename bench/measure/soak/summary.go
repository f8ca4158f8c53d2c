package soak

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"spendgate/bench/load"
)

// growing are the tables that hold what is kept for days or for ever.
var growing = [...]string{
	"checks", "violations", "batches", "idempotency_keys", "events", "outcomes", "payments", "payment_checks", "budget_counters",
	"check_counts", "violation_counts", "webhook_deliveries", "fenced_nodes",
}

var (
	errNotFlat = errors.New("what must be flat is not")
	errWrong   = errors.New("answers were wrong")
)

// summarise prints the state of a run that wrote these samples: what each value was in the first and in the last quarter, and
// whether what must not grow is flat.
func summarise(out io.Writer, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read samples: %w", err)
	}
	var samples []sample
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return fmt.Errorf("cannot read a sample: %w", err)
		}
		samples = append(samples, s)
	}
	if len(samples) < enough {
		_, err := fmt.Fprintf(out, "only %d samples so far\n", len(samples))
		return err
	}
	first, last := samples[0], samples[len(samples)-1]
	faults := 0
	for _, s := range samples {
		faults += len(s.Faults)
	}
	_, err = fmt.Fprintf(out, "%s: %d checks, %d replays, %d payments, %d events delivered, %d faults\n"+
		"failed in faults %d, else %d (%s); wrong %d %s\n", last.At.Sub(first.At).Round(time.Second), last.Checks, last.Replays, last.Payments,
		last.Delivered, faults, last.Excused, last.Failed, last.Failure, last.Wrong, last.Mistake)
	if err != nil {
		return fmt.Errorf("cannot print: %w", err)
	}
	if last.Wrong > 0 {
		return errors.Join(errWrong, table(out, samples))
	}
	return table(out, samples)
}

const (
	enough   = 8       // samples: two in each quarter
	bigTable = 1 << 10 // KiB
)

func table(out io.Writer, samples []sample) error {
	names := make(map[string]bool)
	for _, s := range samples {
		for name := range s.Values {
			names[name] = true
		}
	}
	quarter := len(samples) / 4
	first, last := samples[:quarter], samples[len(samples)-quarter:]
	checks := float64(samples[len(samples)-1].Checks - samples[0].Checks)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name string, a, b float64, said string) {
		_, _ = fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%s\n", name, a, b, said) // Flush says what failed
	}
	_, _ = fmt.Fprintln(w, "median of the\tfirst quarter\tlast quarter\t")
	line("p50 ms", median(first, func(s sample) (float64, bool) { return s.Latency.P50, true }),
		median(last, func(s sample) (float64, bool) { return s.Latency.P50, true }), "")
	line("p99 ms", median(first, func(s sample) (float64, bool) { return s.Latency.P99, true }),
		median(last, func(s sample) (float64, bool) { return s.Latency.P99, true }), "")
	grown := false
	for _, name := range slices.Sorted(maps.Keys(names)) {
		value := func(s sample) (float64, bool) { v, ok := s.Values[name]; return v, ok }
		a, b := median(first, value), median(last, value)
		switch {
		case grows(name):
			each := (samples[len(samples)-1].Values[name] - samples[0].Values[name]) / checks
			switch {
			case strings.HasSuffix(name, " KiB"):
				line(name, a, b, fmt.Sprintf("%.0f bytes a check", each*kibibyte))
			case !strings.HasSuffix(name, "dead rows"):
				line(name, a, b, fmt.Sprintf("%.3f a check", each))
			case b > 0:
				line(name, a, b, "")
			}
		case !flat(name, a, b):
			grown = true
			line(name, a, b, "NOT FLAT")
		case !strings.HasSuffix(name, " rows") && (!strings.HasSuffix(name, " KiB") || b >= bigTable):
			line(name, a, b, "flat")
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("cannot print: %w", err)
	}
	if grown {
		return errNotFlat
	}
	return nil
}

// grows reports whether a value grows with what is recorded.
func grows(name string) bool {
	table, _, _ := strings.Cut(name, " ")
	return slices.Contains(growing[:], table) || table == "database"
}

// flat reports whether a value has not grown, but for noise: a sixth, and a little where there is little.
func flat(name string, first, last float64) bool {
	noise := map[bool]float64{true: 512, false: 8}[strings.HasSuffix(name, " KiB") || strings.HasSuffix(name, " rows")]
	return last <= first*7/6+noise
}

func median(samples []sample, value func(sample) (float64, bool)) float64 {
	var all []float64
	for _, s := range samples {
		if v, ok := value(s); ok {
			all = append(all, v)
		}
	}
	return load.SpreadOf(all).Median
}
