package capacity

import (
	"fmt"
	"text/tabwriter"
)

// leavings are what a check leaves in the database, as bytes.json has it: measured in
// commits of two sizes.
type leavings struct {
	Commits [2]struct {
		Checks float64            `json:"checks"`
		Log    float64            `json:"log"`    // bytes a check
		Tables map[string]float64 `json:"tables"` // bytes a check, by table with its indexes
	} `json:"commits"`
	Event      map[string]float64 `json:"event"` // bytes of one, and of its numbering in the log
	Violations float64            `json:"violations"`
}

// written is what a check leaves, in bytes: in the log, in all tables, and of these in the two
// that stay unless somebody wants otherwise: batches leave by a fold, events by a retention.
type written struct{ log, stored, batches, events float64 }

// at returns what a check leaves in commits of that size, once its event has a number. A
// commit's own share is what the two sizes differ by.
func (l *leavings) at(size float64) written {
	between := func(one, many float64) float64 {
		a, b := 1/l.Commits[0].Checks, 1/l.Commits[1].Checks
		return many + (one-many)/(a-b)*(1/max(size, 1)-b)
	}
	var w written
	for name, one := range l.Commits[0].Tables {
		each := between(one, l.Commits[1].Tables[name])
		w.stored += each
		if name == "batches" {
			w.batches += each
		}
	}
	w.events = l.Violations * l.Event["events"]
	w.stored += w.events
	w.log = between(l.Commits[0].Log, l.Commits[1].Log) + l.Violations*l.Event["log"]
	return w
}

func (l *leavings) write(w *tabwriter.Writer) {
	fmt.Fprintln(w, "\nbytes a check, in commits of\tto the log\tin tables and indexes\tof it batches\tevents")
	for _, size := range []float64{1, 2, 32, 100} {
		b := l.at(size)
		fmt.Fprintf(w, "%.0f\t%.0f\t%.0f\t%.0f\t%.0f\n", size, b.log, b.stored, b.batches, b.events)
	}
	fmt.Fprintln(w)
}
