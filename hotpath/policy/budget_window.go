package policy

import (
	"time"

	"spendgate/audit/spend"
)

// unit is the length of a calendar window.
type unit uint8

const (
	hourly unit = iota
	daily
	weekly
	monthly
	yearly
	lifetime
)

var unitNames = [...]string{"hour", "day", "week", "month", "year", "lifetime"}

// period is how a budget divides time: into calendar windows, or, with rolling,
// into the buckets of a rolling window.
type period struct {
	unit    unit
	zone    *time.Location // nil with rolling
	rolling int64          // minutes
}

const mustBeZone = "must be the name of a time zone of the IANA database, spelt as there (Europe/Berlin)"

func compilePeriod(o *objectReader) period {
	w, calendar := o.oneOf("window")
	minutes, rolling := o.integer("rolling_minutes")
	blank := o.blank("time_zone")
	zone := o.text("time_zone")
	switch {
	case !calendar && !rolling:
		o.fault("window", "is required unless rolling_minutes is given")
	case calendar && rolling:
		o.fault("rolling_minutes", "is not accepted beside window")
	}
	switch {
	case blank:
		o.fault("time_zone", mustBeZone)
	case zone != "" && rolling:
		o.fault("time_zone", "is not accepted with rolling_minutes")
	case rolling:
		return period{rolling: minutes}
	}
	location, err := LoadZone(zone)
	if err != nil {
		o.fault("time_zone", mustBeZone)
	}
	return period{unit: unit(w), zone: location} //nolint:gosec // one of unitNames
}

// lasts reports whether there is one window only.
func (p period) lasts() bool { return p.rolling == 0 && p.unit == lifetime }

// String returns a text like "each day (UTC)".
func (p period) String() string {
	switch {
	case p.rolling > 0:
		return "in any " + count(p.rolling, "minute")
	case p.lasts():
		return "in all"
	}
	return "each " + unitNames[p.unit] + " (" + p.zone.String() + ")"
}

// bucketMS returns the length of a rolling window's buckets, 0 of a calendar
// window.
func (p period) bucketMS() int64 { return p.rolling * 60_000 / spend.RollingBuckets }

// span is a window or bucket: a time in Unix milliseconds, its end excluded, and the name of its counter
// (spend.Counter.StartMS).
type span struct{ start, end, name int64 }

func (s *span) has(ms int64) bool { return s.start <= ms && ms < s.end }

// window returns the window or bucket at a time; zero of a lifetime.
func (p period) window(at time.Time) span {
	switch {
	case p.rolling > 0:
		length := p.bucketMS()
		ms := at.UnixMilli()
		start := ms - ms%length
		return span{start, start + length, start}
	case p.lasts():
		return span{}
	}
	from, until := p.unit.around(latestClock(p.zone, at))
	return span{reached(p.zone, from) * 1000, reached(p.zone, until) * 1000, from * 1000}
}

// A clock is the time that clocks in a zone show, in seconds as though it were Unix time. When clocks
// are set back, times that they show twice belong to the window that began first: a window begins when
// its beginning is first shown or skipped, and ends when the next one begins.

// around returns the readings between which a window lies.
func (u unit) around(clock int64) (from, until int64) {
	t := time.Unix(clock, 0).UTC()
	year, month, day := t.Date()
	var start, end time.Time
	switch u {
	case hourly:
		start = time.Date(year, month, day, t.Hour(), 0, 0, 0, time.UTC)
		end = start.Add(time.Hour)
	case daily:
		start = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		end = start.AddDate(0, 0, 1)
	case weekly:
		start = time.Date(year, month, day-(int(t.Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
		end = start.AddDate(0, 0, 7)
	case monthly:
		start = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		end = start.AddDate(0, 1, 0)
	case yearly:
		start = time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
		end = start.AddDate(1, 0, 0)
	case lifetime:
		panic("BUG: a lifetime has no calendar")
	}
	return start.Unix(), end.Unix()
}

// furthest is more than any two clocks of one zone ever differed, in seconds.
const furthest = 27 * 3600

// latestClock returns the greatest reading until then, whole seconds.
func latestClock(zone *time.Location, at time.Time) int64 {
	t := time.Unix(at.Unix(), 0).In(zone)
	_, offset := t.Zone()
	latest := t.Unix() + int64(offset)
	for {
		changed, _ := t.ZoneBounds()
		if changed.IsZero() || at.Unix()-changed.Unix() > furthest {
			return latest
		}
		t = changed.Add(-time.Second)
		_, offset = t.Zone()
		latest = max(latest, t.Unix()+int64(offset))
	}
}

// reached returns when a reading was first shown or passed over, Unix seconds.
func reached(zone *time.Location, clock int64) int64 {
	second := clock - furthest // the clock has not shown this time yet
	for {
		t := time.Unix(second, 0).In(zone)
		_, offset := t.Zone()
		changes := nextChange(t)
		second = max(second, clock-int64(offset))
		if changes.IsZero() || second < changes.Unix() {
			return second
		}
		second = changes.Unix()
	}
}

// nextChange returns when the zone's offset may change next, zero if it never does.
func nextChange(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		// The time package takes 365 days for the year, so that the last day of a
		// leap year comes after its end.
		end = time.Date(t.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return end
}
