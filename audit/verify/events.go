package verify

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// EventState is the state of numbering events.
type EventState struct {
	Rows int64 // of the table: 1
	Last int64 // the greatest number
	// Stands says that it is of another cluster, so that nothing gets a number until `audit restored` (E12 in docs/internals/events.md).
	Stands bool
}

// Event is an event with a number.
type Event struct {
	Sequence int64
	Type     audit.EventType // which need not be known
	Source   spend.ID
	At       *time.Time // of a change or an exhaustion
	Used     spend.ID   // of the use of an approval, the check
}

// StrayEvent is an event without its source, a source without its event, or an event with another
// policy or agent than its source.
type StrayEvent struct {
	Sequence int64
	Source   spend.ID
	Type     audit.EventType
	Numbered bool      // the event exists
	Due      bool      // the source exists, at a position below the bound
	At       time.Time // when that happened; zero without the source
	Hidden   bool      // the source's transaction does not exist
}

// keptFeed is what changes record about removed events, and what is missing of them.
type keptFeed struct {
	upTo, removed int64
	before        time.Time // all happened before it
	gone          int64     // sources from before that time without an event
}

// eventsRemoved notes a change that records removed events. No node makes one for events that were
// not old enough then.
func (w *changeWalk) eventsRemoved(c Change) {
	removal, unread := audit.ParseEventsRemoval(c.Details)
	before, malformed := removal.Cutoff()
	f := &w.feed
	fits := unread == nil && malformed == nil && c.Subject == audit.EventsSubject
	follows := removal.UpTo > f.upTo && removal.Count > 0 && !before.Before(f.before)
	if !fits || !follows || before.After(c.At.Add(lateCommit-audit.LeastEventsKept)) {
		w.tally.find(Inserted, changeName(c.Seq), "it says that events were removed which are kept longer, or were removed already")
		return
	}
	f.upTo, f.before, f.removed = removal.UpTo, before, f.removed+removal.Count
}

// lostAtMost bounds the numbers that a promoted standby skips (E11 in docs/internals/events.md).
const lostAtMost = 1_000_000

// events compares the feed with its sources, and its numbers with the order in which the sources
// were recorded.
func (v *verifier) events(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	if err := v.o.Evidence.StrayEvents(ctx, v.feed.upTo, v.strayEvent); err != nil {
		return err
	}
	for month, noted := range v.overview.Months {
		n, err := v.o.Evidence.ViolationEvents(ctx, month.Range(), v.feed.upTo)
		if err != nil {
			return err
		}
		if left := noted.Rows - n; left != 0 && (left < 0 || !month.Range().Low.Time().Before(v.feed.before)) {
			v.tally.find(Altered, "events of month "+month.String(), "there are %d of violations, of which %d were archived", n, noted.Rows)
		} else {
			v.feed.gone += left
		}
	}
	if f := &v.feed; f.gone != f.removed {
		v.tally.find(Altered, fmt.Sprintf("events up to number %d", f.upTo), "by the record of changes %d were removed; %d are not there",
			f.removed, f.gone)
	}
	walk := eventWalk{verifier: v, last: v.feed.upTo, approvals: make(map[spend.ID]int64)}
	if err := v.o.Evidence.Events(ctx, walk.event); err != nil {
		return err
	}
	state, err := v.o.Evidence.EventState(ctx)
	switch {
	case err != nil:
		return err
	case state.Rows != 1 || state.Last < walk.last:
		v.tally.find(Altered, "table event_state", "it has %d rows, and %d as the greatest number; there is event %d", state.Rows, state.Last,
			walk.last)
	case state.Stands:
		v.tally.find(Altered, "table event_state", "it is of another cluster: events get no numbers, and the feed and webhooks stand still, "+
			"until `spendgate audit restored`")
	default:
		walk.gap(state.Last + 1)
	}
	return nil
}

func (v *verifier) strayEvent(e StrayEvent) error {
	switch source := sourceName(e.Type, e.Source); {
	case !e.Hidden && !e.Numbered && e.At.Before(v.feed.before):
		if _, archived := v.overview.Months[MonthOf(e.Source.Time())]; e.Type != audit.EventViolationRecorded || !archived {
			v.feed.gone++ // events of archived months are counted by their notes
		}
	case e.Hidden:
		v.tally.find(Altered, "event of "+source, "its transaction has not begun yet: it would never have a number")
	case !e.Numbered:
		v.tally.find(Removed, "event of "+source, "type %s: by table event_state it has a number", e.Type)
	case e.Numbered && !e.Due:
		v.tally.find(Inserted, eventName(e.Sequence), "its source, %s, is not there, or has no number by table event_state", source)
	case e.Numbered:
		v.tally.find(Altered, eventName(e.Sequence), "it is not noted as of the policy and agent of %s", source)
	}
	return nil
}

// eventWalk reads the feed in order.
type eventWalk struct {
	*verifier
	last      int64
	latest    time.Time
	change    uint64
	decided   bool               // the latest event of a change is approval.decided
	approvals map[spend.ID]int64 // number of the request
}

func (w *eventWalk) event(e Event) error {
	w.tally.events++
	if e.Sequence <= w.feed.upTo {
		return nil // nobody reads it, and it is about to be deleted
	}
	w.gap(e.Sequence)
	w.last = e.Sequence
	at, known := e.Source.Time(), true
	switch t := e.Type; {
	case !t.Known(): // it has no source, which is reported
	case t.Source() == audit.SourceChange:
		// Changes are made one after the other. A change that is a decision has its own event before
		// the time of the decided change.
		change := binary.BigEndian.Uint64(e.Source[8:])
		if change < w.change || change == w.change && !w.decided {
			w.tally.find(Altered, eventName(e.Sequence), "%s has a number below it, and was made later", changeName(int64(w.change)))
		}
		w.change, w.decided, known = change, t == audit.EventApprovalDecided, false
	case t.Source() == audit.SourceApproval:
		w.approvals[e.Source] = e.Sequence
	case t.Source() == audit.SourceUse:
		if asked := w.approvals[e.Source]; asked == 0 && !e.Source.Time().Before(w.feed.before) {
			w.tally.find(Altered, eventName(e.Sequence), "%s was used before it was asked for", approvalName(e.Source))
		}
		at, known = e.Used.Time(), !e.Used.IsZero()
	case t.Source() == audit.SourceExhaustion:
		known = false
	}
	if e.At != nil {
		at, known = *e.At, true
	}
	if !known {
		return nil // its source is missing, which is reported
	}
	// An event out of order is named once: later events are compared with it.
	if at.Before(w.latest.Add(-lateCommit)) {
		w.tally.find(Altered, eventName(e.Sequence),
			"it is of %s, and one of %s has a number below it; or a commit was held up, or a clock was off", stamp(at), stamp(w.latest))
		w.latest = at
	}
	if at.After(w.latest) {
		w.latest = at
	}
	return nil
}

// gap names the numbers between the last one and the next.
func (w *eventWalk) gap(next int64) {
	if missing := next - w.last - 1; missing%lostAtMost != 0 {
		w.tally.find(Removed, eventName(w.last+1), "and all up to number %d", next-1)
	}
}

func eventName(sequence int64) string { return fmt.Sprintf("event %d", sequence) }

// sourceNames name the sources of events.
var sourceNames = [...]func(spend.ID) string{
	audit.SourceViolation:  violationName,
	audit.SourceApproval:   approvalName,
	audit.SourceUse:        useName,
	audit.SourceOutcome:    outcomeName,
	audit.SourceExhaustion: exhaustionName,
	audit.SourceChange:     func(id spend.ID) string { return changeName(int64(binary.BigEndian.Uint64(id[8:]))) },
}

// sourceName names the source of an event.
func sourceName(t audit.EventType, id spend.ID) string {
	if !t.Known() {
		return "source " + id.Text("")
	}
	return sourceNames[t.Source()](id)
}
