package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spendgate/audit/spend"
)

// timeRestriction blocks actions outside the allowed days and hours (S12).
type timeRestriction struct {
	days  daySet
	hours hours
	zone  *time.Location // of the days and hours; nil: UTC
}

var timeRestrictionParameters = []Parameter{
	{Name: "allowed_days", Names: dayNames[:], Example: `["mon", "tue", "wed", "thu", "fri"]`, Text: "any day if left out"},
	{Name: "allowed_hours_utc", Example: `"08:00-18:00"`, Text: "all day if left out; days or hours are required"},
	{Name: "allowed_hours", Text: "hours in time_zone, in place of allowed_hours_utc"},
	{Name: "time_zone", Text: "whose days and hours are meant, for example Europe/Berlin; UTC if left out"},
}

func compileTimeRestriction(o *objectReader, r *rule) string {
	c := &timeRestriction{everyDay, wholeDay, nil}
	var listed daySet
	hasDays := o.list("allowed_days", func(entry string) string {
		day := slices.Index(dayNames[:], entry)
		if day < 0 {
			return "must be a day: " + strings.Join(dayNames[:], ", ")
		}
		listed |= 1 << day
		return ""
	})
	if hasDays {
		c.days = listed
	}
	zoned := o.blank("time_zone") || o.member("time_zone") != nil
	hasUTC, hasLocal := c.readHours(o, "allowed_hours_utc"), c.readHours(o, "allowed_hours")
	switch {
	case hasUTC && zoned:
		o.fault("time_zone", "is not accepted with allowed_hours_utc: give allowed_hours")
	case hasUTC && hasLocal:
		o.fault("allowed_hours", "is not accepted beside allowed_hours_utc")
	case hasLocal && !zoned:
		o.fault("time_zone", "is required with allowed_hours")
	case !hasDays && !hasUTC && !hasLocal:
		o.fault("allowed_days", "is required unless allowed_hours_utc or allowed_hours is given")
	}
	if zoned {
		zone, err := LoadZone(o.text("time_zone"))
		if err != nil || o.blank("time_zone") {
			o.fault("time_zone", mustBeZone)
		}
		c.zone = zone
	}
	r.condition = c
	return "Blocks actions outside " + c.String()
}

// readHours reads a parameter with hours, and reports whether it is present.
func (c *timeRestriction) readHours(o *objectReader, name string) bool {
	raw := o.value(name)
	if raw == nil {
		return false
	}
	text, _ := unquote(raw) // of anything but a string empty, which has not the form
	h, err := parseHours(text)
	if err != nil {
		o.fault(name, err.Error())
	}
	c.hours = h
	return true
}

func (c *timeRestriction) judge(_ *spend.Action, at moment) spend.Reason {
	if c.open(c.clock(at)) {
		return spend.ReasonNone
	}
	return spend.ReasonTimeRestriction
}

// clock returns what counts as the time in the rule's zone: the latest that clocks there have shown. So a window
// begins and ends when its ends are first shown, or skipped (S89).
func (c *timeRestriction) clock(at moment) weekMinute {
	if c.zone == nil {
		return at.utc
	}
	return weekMinuteOf(latestClock(c.zone, time.Unix(at.unix, 0)))
}

// open reports whether a window is open. One that crosses midnight is open
// from its start on an allowed day and until its end on the day after.
func (c *timeRestriction) open(at weekMinute) bool {
	day, minute := at.split()
	if c.hours.start < c.hours.end {
		return c.days.has(day) && c.hours.start <= minute && minute < c.hours.end
	}
	return minute >= c.hours.start && c.days.has(day) ||
		minute < c.hours.end && c.days.has((day+6)%7)
}

func (c *timeRestriction) explain(f Finding, _ *spend.Action, g *guardSettings) (message, nextStep string) {
	return c.clock(f.at).String() + " " + c.zoneName() + " is outside " + c.String(),
		"Do not proceed now. Check again within " + c.String() + g.afterBlock() + "."
}

// String returns a text like "mon, tue 09:00-17:00 UTC".
func (c *timeRestriction) String() string {
	return c.days.String() + " " + c.hours.String() + " " + c.zoneName()
}

func (c *timeRestriction) zoneName() string {
	if c.zone == nil {
		return utc
	}
	return c.zone.String()
}

// size returns the memory of the zone.
func (c *timeRestriction) size() int {
	if c.zone == nil || c.zone == time.UTC {
		return 0
	}
	return zoneOverhead
}

const (
	minutesPerDay  = 24 * 60
	minutesPerWeek = 7 * minutesPerDay
)

// dayNames are the days as policies spell them, from Monday, day 0.
var dayNames = [7]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// daySet has bit 0 for Monday.
type daySet uint8

const everyDay daySet = 1<<7 - 1

func (s daySet) has(day int) bool { return s&(1<<day) != 0 }

// String lists the days in the order of the week.
func (s daySet) String() string {
	if s == everyDay {
		return "any day"
	}
	var listed []string
	for day, name := range dayNames {
		if s.has(day) {
			listed = append(listed, name)
		}
	}
	return strings.Join(listed, ", ")
}

// hours is a window in minutes of the day, its start included and its end
// excluded (S12). It crosses midnight when start > end; they never are equal.
type hours struct{ start, end int }

var wholeDay = hours{0, minutesPerDay}

// What parseHours refuses. The texts complete "allowed_hours_utc ...".
var (
	errHoursForm  = errors.New("must be of the form HH:MM-HH:MM, from 00:00 to 23:59, or 24:00 as the end")
	errHoursEqual = errors.New("must not end when it starts")
)

// parseHours reads HH:MM-HH:MM. It fails with errHoursForm or errHoursEqual.
func parseHours(s string) (hours, error) {
	if len(s) != len("HH:MM-HH:MM") || s[5] != '-' {
		return hours{}, errHoursForm
	}
	start, startOK := parseClock(s[:5])
	end, endOK := parseClock(s[6:])
	if !startOK || !endOK || start == minutesPerDay {
		return hours{}, errHoursForm
	}
	if start == end {
		return hours{}, errHoursEqual
	}
	return hours{start, end}, nil
}

// parseClock reads HH:MM, 24:00 included, as minutes of the day.
func parseClock(s string) (minute int, ok bool) {
	for i, c := range []byte(s) {
		if i == 2 && c != ':' || i != 2 && (c < '0' || c > '9') {
			return 0, false
		}
	}
	hour, minute := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	if minute > 59 || hour > 24 || hour == 24 && minute > 0 {
		return 0, false
	}
	return hour*60 + minute, true
}

// String returns what parseHours reads.
func (h hours) String() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", h.start/60, h.start%60, h.end/60, h.end%60)
}

// moment is when an action is judged.
type moment struct {
	unix int64 // seconds
	utc  weekMinute
}

func momentOf(t time.Time) moment { return moment{t.Unix(), weekMinuteOf(t.Unix())} }

// weekMinute is a minute of the week, from Monday at 00:00.
type weekMinute int16

// weekMinuteOf returns the minute of a time in Unix seconds, or of what clocks show as though it were.
func weekMinuteOf(unix int64) weekMinute {
	const epoch = 3 * minutesPerDay // Unix time began on a Thursday
	const week = minutesPerWeek * 60
	seconds := (unix%week + week + epoch*60) % week // of the week, also before 1970
	return weekMinute(seconds / 60)
}

func (m weekMinute) split() (day, minute int) { return int(m) / minutesPerDay, int(m) % minutesPerDay }

// String returns a text like "tue 18:30".
func (m weekMinute) String() string {
	day, minute := m.split()
	return fmt.Sprintf("%s %02d:%02d", dayNames[day], minute/60, minute%60)
}
