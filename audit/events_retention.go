package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// LeastEventsKept is the shortest retention of events: deliveries to webhooks are tried for less.
const LeastEventsKept = 30 * 24 * time.Hour

// EventsSubject is the subject of changes of kind EventsRemoved: no policy_id begins so.
const EventsSubject = "/v1/events"

// EventsRemovedError is that events after a cursor were removed by their retention.
type EventsRemovedError struct {
	UpTo int64 // the greatest sequence that was removed: where to go on
}

func (e *EventsRemovedError) Error() string {
	return fmt.Sprintf("the events up to %d were removed, as the operator keeps them for so long: go on with after=%[1]d; "+
		"what happened is in the lists of checks, violations and approvals", e.UpTo)
}

// Keeper returns the actor of removals of events and payments.
func Keeper() Actor { return Actor{Principal: "spendgate"} }

// EventsRemoval describes a change of kind EventsRemoved: Count events were removed, with numbers up
// to UpTo, all from before that UTC day.
type EventsRemoval struct {
	UpTo   int64
	Count  int64
	Before string // a date
}

// Cutoff returns the beginning of the day before which all of it happened.
func (r *EventsRemoval) Cutoff() (time.Time, error) { return time.Parse(time.DateOnly, r.Before) }

// ParseEventsRemoval reads the details of a change.
func ParseEventsRemoval(details string) (r EventsRemoval, err error) {
	var said map[string]json.RawMessage // by names as they are: a struct would take those in other letters
	err = json.Unmarshal([]byte(details), &said)
	if err == nil {
		err = errors.Join(json.Unmarshal(said["up_to"], &r.UpTo), json.Unmarshal(said["removed"], &r.Count),
			json.Unmarshal(said["before"], &r.Before))
	}
	if err != nil {
		return r, fmt.Errorf("cannot read what was removed: %w", err)
	}
	return r, nil
}

// KeptFrom returns from when on events are kept: the beginning of a UTC day.
func KeptFrom(keep time.Duration, now time.Time) time.Time {
	return now.UTC().Add(-keep).Truncate(24 * time.Hour)
}

// ChangeOfEvents returns the record of a removal, without its head. PostgreSQL makes its
// own (remove_events).
func ChangeOfEvents(r EventsRemoval, at time.Time) Change {
	details := map[string]any{"up_to": r.UpTo, "removed": r.Count, "before": r.Before}
	return newChange(Change{Kind: EventsRemoved, Subject: EventsSubject, By: Keeper(), At: at}, details)
}
