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
	"unicode/utf8"
)

// effects returns the columns of the summary, in the order of the interface.
func effects() []string { return []string{"allow", "block", "escalate", "refused"} }

// table prints the answers and counts them.
type table struct {
	out      io.Writer
	colored  bool
	count    map[string]map[string]int // by kind of step, then by effect
	reasons  map[[2]string]int         // by effect and reason
	replayed int
	inferred int
	waiting  map[string]bool // approvals that were asked for
	took     []time.Duration // the time of each request, as the demo measures it
	judged   []time.Duration // the time of each decision, as the node states it
}

func newTable(f *os.File) *table {
	t := &table{out: f, count: make(map[string]map[string]int), reasons: make(map[[2]string]int), waiting: make(map[string]bool)}
	if info, err := f.Stat(); err == nil && os.Getenv("NO_COLOR") == "" {
		t.colored = info.Mode()&os.ModeCharDevice != 0
	}
	return t
}

// printf ignores errors: a broken pipe ends the demo at the next write.
func (t *table) printf(format string, args ...any) {
	fmt.Fprintf(t.out, format, args...) //nolint:errcheck // see above
}

func (t *table) head() {
	t.printf("%4s  %-17s  %-9s  %13s  %-20s  %-8s  %-6s  %s\n", "#", "policy", "type", "amount", "to", "decision", "sure", "why")
}

// row prints one answer.
func (t *table) row(number int, s step, a answer) {
	effect, reason := a.Decision.String(), a.ReasonCode
	if a.refusal != "" {
		effect, reason = "refused", a.refusal
	}
	asked := cmp.Or(string(s.action.ActionType), "(text)")
	t.record(s, a, asked, effect, reason)
	t.printf("%4d  %-17s  %-9s  %13s  %-20s  %s  %-6s  %s\n", number, s.action.PolicyID, asked,
		s.action.Amount.Money(s.action.Currency), s.action.Counterparty, t.color(effect), a.Confidence, why(s, a, reason))
}

func (t *table) record(s step, a answer, asked, effect, reason string) {
	if t.count[asked] == nil {
		t.count[asked] = make(map[string]int)
	}
	t.count[asked][effect]++
	if reason != "" {
		t.reasons[[2]string{effect, reason}]++
	}
	if a.Replayed {
		t.replayed++
	}
	if s.action.ActionType == "" {
		t.inferred++
	}
	if a.ApprovalID != "" {
		t.waiting[a.ApprovalID] = true
	}
	t.took = append(t.took, a.took)
	if a.refusal == "" && !a.Replayed {
		t.judged = append(t.judged, time.Duration(a.LatencyMS)*time.Millisecond)
	}
}

// why returns a few words on the reason for the decision.
func why(s step, a answer, reason string) string {
	var parts []string
	if a.Replayed {
		parts = append(parts, fmt.Sprintf("replay of #%d", s.of+1))
	} else if s.kind == duplicate {
		parts = append(parts, fmt.Sprintf("#%d again", s.of+1))
	}
	if reason != "" {
		rule := ""
		if a.ViolatedRuleID != "" && a.ViolatedRuleID != reason {
			rule = " (" + a.ViolatedRuleID + ")"
		}
		parts = append(parts, reason+rule)
	}
	if a.refusal != "" {
		parts = append(parts, a.Message)
	}
	if s.action.ActionType == "" {
		parts = append(parts, fmt.Sprintf("%q", s.action.ReasonText))
	}
	return strings.Join(parts, "; ")
}

// color pads an effect to its column and colors it on a terminal.
func (t *table) color(effect string) string {
	padded := effect + strings.Repeat(" ", max(0, 8-utf8.RuneCountInString(effect)))
	paint := map[string]string{"allow": "32", "block": "31", "escalate": "33", "refused": "35"}[effect]
	if !t.colored || paint == "" {
		return padded
	}
	return "\x1b[" + paint + "m" + padded + "\x1b[0m"
}

// summary prints decisions by type and by reason, and how long they took.
func (t *table) summary(elapsed time.Duration) {
	t.printf("\n%d actions in %.1f s: %d replayed, %d with their type inferred from text\n",
		len(t.took), elapsed.Seconds(), t.replayed, t.inferred)
	t.printf("\n%-10s", "type")
	for _, effect := range effects() {
		t.printf("  %8s", effect)
	}
	total := make(map[string]int)
	for _, asked := range slices.Sorted(maps.Keys(t.count)) {
		t.printf("\n%-10s", asked)
		for _, effect := range effects() {
			t.printf("  %8d", t.count[asked][effect])
			total[effect] += t.count[asked][effect]
		}
	}
	t.printf("\n%-10s", "all")
	for _, effect := range effects() {
		t.printf("  %8d", total[effect])
	}
	t.printf("\n\n%5s  %-8s  %s\n", "count", "decision", "reason")
	keys := slices.SortedFunc(maps.Keys(t.reasons), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(t.reasons[b], t.reasons[a]), cmp.Compare(a[1], b[1]))
	})
	for _, key := range keys {
		t.printf("%5d  %s  %s\n", t.reasons[key], t.color(key[0]), key[1])
	}
	t.printf("\n%d approvals wait for a person, on the page Approvals of the console: .bin/spendgate approvals list\n", len(t.waiting))
	t.printf("\nlatency       p50     p90     p99     max\n")
	t.printf("request  %s  as this program sees it\n", percentiles(t.took, "%.1f"))
	t.printf("decision %s  as the node says, rounded down\n", percentiles(t.judged, "%.0f"))
}

func percentiles(all []time.Duration, format string) string {
	slices.Sort(all)
	var line strings.Builder
	for _, percent := range []int{50, 90, 99, 100} {
		if len(all) == 0 {
			break
		}
		at := all[(len(all)*percent+99)/100-1]
		fmt.Fprintf(&line, "%8s", fmt.Sprintf(format, float64(at)/float64(time.Millisecond))+"ms")
	}
	return line.String()
}
