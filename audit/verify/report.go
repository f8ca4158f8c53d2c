package verify

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spendgate/audit/spend"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings.
const (
	Altered   Kind = "altered"   // it differs from what was recorded
	Removed   Kind = "removed"   // it was recorded and is missing
	Inserted  Kind = "inserted"  // it exists and was not recorded
	Unchecked Kind = "unchecked" // nothing can be said about it
	// Acknowledged is a loss over which a later checkpoint was signed on purpose. It is reported, and
	// does not make the result unclean.
	Acknowledged Kind = "acknowledged"
)

// Finding is one discrepancy.
type Finding struct {
	Kind    Kind
	Subject string // "check chk_0190..."
	Detail  string
}

// String returns the finding on one line, as a terminal may show it: who alters rows chooses what they say.
func (f Finding) String() string {
	line := fmt.Sprintf("%s %s: %s", f.Kind, f.Subject, f.Detail)
	return strings.ReplaceAll(string(spend.AppendPrintableJSON(nil, []byte(line))), "\n", `\n`)
}

// Summary is the scope and the result of a verification.
type Summary struct {
	Checks, Violations, Outcomes int64
	Batches, Chains              int64
	Policies, Keys, Changes      int64
	Counters                     int64 // of budgets, and compared
	CountersBeyond               int64 // of windows that extend beyond the range
	Approvals                    int64 // compared
	Events                       int64 // with a number
	IdempotencyKeys              int64 // with a row
	Checkpoints                  int64
	LastCheckpoint               time.Time // zero without any
	LastCheck                    time.Time // stored or listed; zero without any
	TornCheckpoints              int64     // incomplete lines, which were skipped
	Findings                     map[Kind]int64
}

// Clean reports whether everything is as it was recorded.
func (s Summary) Clean() bool {
	return len(s.Findings) == 0 || len(s.Findings) == 1 && s.Findings[Acknowledged] > 0
}

// tally collects a Summary.
type tally struct {
	checks, violations, outcomes, batches, chains, checkpoints atomic.Int64
	policies, keys, changes                                    atomic.Int64

	entries, chained atomic.Int64 // of batches, found by time and along the chains
	stored           atomic.Int64 // checks in the database
	storedViolations atomic.Int64
	openRedemptions  atomic.Int64

	counters, countersBeyond, approvals, events, idempotencyKeys, payments int64

	lastCheckpoint time.Time
	torn           int64

	mu       sync.Mutex
	found    func(Finding)
	findings map[Kind]int64
	unread   []Day         // archived days whose archive is absent or altered
	lastMS   int64         // of the last check
	gone     map[Day]int64 // listed checks of days without a partition
}

func (t *tally) find(kind Kind, subject, format string, args ...any) {
	t.add(Finding{kind, subject, fmt.Sprintf(format, args...)})
}

func (t *tally) add(f Finding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.findings[f.Kind]++
	t.found(f)
}

// count returns the number of findings.
func (t *tally) count() (n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, found := range t.findings {
		n += found
	}
	return n
}

// latest notes the time of a check.
func (t *tally) latest(id spend.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastMS = max(t.lastMS, ms(id))
}

func (t *tally) goneCheck(day Day) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone[day]++
}

func (t *tally) summary() Summary {
	var last time.Time
	if t.lastMS > 0 {
		last = time.UnixMilli(t.lastMS).UTC()
	}
	return Summary{
		Checks: t.checks.Load(), Violations: t.violations.Load(), Outcomes: t.outcomes.Load(), Batches: t.batches.Load(), Chains: t.chains.Load(),
		Policies: t.policies.Load(), Keys: t.keys.Load(), Changes: t.changes.Load(),
		Counters: t.counters, CountersBeyond: t.countersBeyond, Approvals: t.approvals, Events: t.events, IdempotencyKeys: t.idempotencyKeys,
		Checkpoints: t.checkpoints.Load(), LastCheckpoint: t.lastCheckpoint, LastCheck: last, TornCheckpoints: t.torn,
		Findings: t.findings,
	}
}

func checkName(id spend.ID) string { return "check " + id.Text(spend.PrefixCheck) }

// entryName names the subject of a batch's entry.
func entryName(id spend.ID) string {
	if id.OfOutcome() {
		return outcomeName(id)
	}
	return checkName(id)
}

func outcomeName(id spend.ID) string   { return "outcome " + id.Text("") }
func violationName(id spend.ID) string { return "violation " + id.Text(spend.PrefixViolation) }
func chainName(id spend.ID) string     { return "chain " + id.Text("") }
func batchName(chainID spend.ID, seq int64) string {
	return fmt.Sprintf("batch %d of %s", seq, chainName(chainID))
}
