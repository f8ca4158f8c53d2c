package httpapi

import (
	"strings"
	"time"

	"spendgate/audit/spend"
)

const dateForm = "must be an RFC 3339 time or a date: 2026-01-31T12:00:00Z or 2026-01-31"

// dayPart selects the instant of a date.
type dayPart bool

const (
	dayBegin dayPart = false
	dayEnd   dayPart = true
)

// latestInstant is the last one that an ID can name.
var latestInstant = time.UnixMilli(1<<48 - 1).UTC()

// queryRange reads from and to, both inclusive to the millisecond (S22). Absent
// ones are zero.
func queryRange(values map[string]string, faults *spend.Faults) (first, last time.Time) {
	from, hasFrom := queryInstant("from", values, dayBegin, faults)
	to, hasTo := queryInstant("to", values, dayEnd, faults)
	if hasFrom && hasTo && from.After(to) {
		faults.Add("from", "must not be after to")
	}
	if hasFrom {
		first = firstRecordable(from)
	}
	if hasTo {
		last = recordable(to.Truncate(time.Millisecond))
	}
	return first, last
}

// periodRange is queryRange for answers that repeat their period. The period must be the one in the
// request, so one that begins before any possible record is refused.
func periodRange(values map[string]string, faults *spend.Faults) (first, last time.Time) {
	for _, name := range [...]string{"from", "to"} {
		if t, ok := parseInstant(values[name], dayBegin); ok && t.Before(time.UnixMilli(0)) {
			faults.Add(name, "must not be before 1970")
		}
	}
	return queryRange(values, faults)
}

// firstRecordable returns the first instant from t on that a record can have. Records have whole
// milliseconds: identifiers of the millisecond of t are before t, unless t is its first instant.
func firstRecordable(t time.Time) time.Time {
	return recordable(t.Add(time.Millisecond - 1).Truncate(time.Millisecond))
}

func queryInstant(name string, values map[string]string, of dayPart, faults *spend.Faults) (time.Time, bool) {
	s, given := values[name]
	if !given {
		return time.Time{}, false
	}
	t, ok := parseInstant(s, of)
	if !ok {
		faults.Add(name, dateForm)
	}
	return t, ok
}

// recordable moves an instant that no ID can name to the nearest that one can.
// It also keeps the zero time, which means "no filter", out of a query.
func recordable(t time.Time) time.Time {
	switch {
	case t.Before(time.UnixMilli(0)):
		return time.UnixMilli(0).UTC()
	case t.After(latestInstant):
		return latestInstant
	}
	return t
}

// parseInstant reads an RFC 3339 time, which is UTC if it names no offset (the
// interface's "ISO 8601 UTC"), or a date as that part of its UTC day.
func parseInstant(s string, of dayPart) (time.Time, bool) {
	if len(s) == len(time.DateOnly) {
		t, err := time.Parse(time.DateOnly, s)
		if of == dayEnd {
			t = t.Add(24*time.Hour - time.Millisecond)
		}
		return t, err == nil
	}
	// A + that was sent as it is arrives as a space; nothing else can be meant.
	if i := len(s) - len("+02:00"); i > 0 && s[i] == ' ' {
		s = s[:i] + "+" + s[i+1:]
	}
	// time.Parse also takes a comma and hours of one digit.
	const seconds = len("2006-01-02T15:04:05")
	if len(s) < seconds || strings.Contains(s, ",") || s[10] != 'T' || s[13] != ':' {
		return time.Time{}, false
	}
	if strings.Trim(s[seconds:], ".0123456789") == "" {
		s += "Z"
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err == nil && !offsetTooWide(s)
}

// offsetTooWide finds the offsets that no place has and time.Parse takes.
func offsetTooWide(s string) bool {
	if s[len(s)-1] == 'Z' {
		return false
	}
	offset := s[len(s)-len("02:00"):]
	return offset > "23:59" || offset[3:] > "59"
}
