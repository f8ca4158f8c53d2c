package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"spendgate/bench/chaos/judge"
)

const (
	mostFindings = 10  // reported in detail
	mostOps      = 12  // of one finding
	mostText     = 600 // of one answer
	around       = 3 * time.Second
)

// keep writes the history to a file and returns its path.
func keep(h *judge.History) (string, error) {
	file, err := os.CreateTemp("", fmt.Sprintf("spendgate-chaos-%d-*.json", h.Run.Seed))
	if err != nil {
		return "", fmt.Errorf("cannot keep the history: %w", err)
	}
	if err := h.Write(file); err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("cannot keep the history: %w", err)
	}
	return file.Name(), nil
}

// report prints each finding with the requests and the faults involved, in the
// order in which they happened.
func report(w io.Writer, h *judge.History, findings []judge.Finding) error {
	ops := make(map[int]*judge.Op, len(h.Ops))
	for i := range h.Ops {
		ops[h.Ops[i].ID] = &h.Ops[i]
	}
	var text strings.Builder
	for _, f := range findings[:min(len(findings), mostFindings)] {
		fmt.Fprintf(&text, "\n%s: %s\n", f.Rule, f.Text)
		type event struct {
			at   time.Duration
			what string
		}
		var events []event
		for _, id := range f.Ops[:min(len(f.Ops), mostOps)] {
			o := ops[id]
			events = append(events, event{o.Sent, fmt.Sprintf("  %9.3f - %9.3f  %s by %s through %s: %s\n%25s%d %s%s", o.Sent.Seconds(),
				o.Done.Seconds(),
				o.Kind, o.Agent, o.Via, o.Request, "", o.Status, cut(o.Answer+o.Error), map[bool]string{true: " (replayed)"}[o.Replayed])})
		}
		for _, x := range h.Faults {
			if x.From <= f.To+around && x.To >= f.From-around {
				events = append(events, event{x.From, fmt.Sprintf("  %9.3f - %9.3f  fault: %s", x.From.Seconds(), x.To.Seconds(), x.Name)})
			}
		}
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		for _, e := range events {
			text.WriteString(e.what + "\n")
		}
	}
	if more := len(findings) - mostFindings; more > 0 {
		fmt.Fprintf(&text, "\nand %d more\n", more)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func cut(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > mostText {
		return s[:mostText] + "..."
	}
	return s
}

// summary returns a few lines about a round.
func summary(h *judge.History) string {
	statuses, faults := make(map[int]int), make(map[string]int)
	passed, frozen, freezes := 0, 0, 0
	for _, o := range h.Ops {
		statuses[o.Status]++
	}
	for _, f := range h.Faults {
		faults[f.Name]++
	}
	for _, r := range h.Rows {
		if r.ClaimedMS != nil {
			passed++
		}
		if r.ReasonCode != nil && *r.ReasonCode == "frozen" {
			frozen++
		}
	}
	for _, s := range h.Freezes {
		if s.Kind == "freeze.created" {
			freezes++
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests (", len(h.Ops))
	for i, status := range slices.Sorted(maps.Keys(statuses)) {
		if i > 0 {
			text.WriteString(", ")
		}
		name := fmt.Sprint(status)
		if status == 0 {
			name = "unanswered"
		}
		fmt.Fprintf(&text, "%s: %d", name, statuses[status])
	}
	fmt.Fprintf(&text, "); %d checks recorded, %d passed the guard, %d blocked by %d freezes; %d of payments and %d of policies\nfaults:",
		len(h.Rows), passed, frozen, freezes, len(h.Payments), len(h.Policies))
	for i, f := range slices.SortedFunc(slices.Values(h.Faults), func(a, b judge.Fault) int { return cmp.Compare(a.From, b.From) }) {
		if i > 0 {
			text.WriteString(";")
		}
		fmt.Fprintf(&text, " %.1f s %s", f.From.Seconds(), f.Name)
	}
	return text.String()
}
