package policy

import (
	"errors"
	"testing"
	"time"

	"spendgate/hotpath/spend"
)

// openAt and closedAt judge by a time_restriction at an instant.
func openAt(t *testing.T, parameters, when string) {
	t.Helper()
	if !allowedAt(t, parameters, when) {
		t.Errorf("S12 %s is closed at %s", parameters, when)
	}
}

func closedAt(t *testing.T, parameters, when string) {
	t.Helper()
	if allowedAt(t, parameters, when) {
		t.Errorf("S12 %s is open at %s", parameters, when)
	}
}

func allowedAt(t *testing.T, parameters, when string) bool {
	t.Helper()
	now, err := time.Parse("2006-01-02 15:04:05.999999999 -0700", when)
	if err != nil {
		t.Fatal(err)
	}
	f := mustCompile(t, rule1("time_restriction", parameters)).Evaluate(action(t), named(spend.Spend), now)
	if f.Effect != spend.Allow && (f.Effect != spend.Block || f.Reason != spend.ReasonTimeRestriction) {
		t.Errorf("S12 %s at %s: %v, %q", parameters, when, f.Effect, f.Reason)
	}
	return f.Effect == spend.Allow
}

func TestTimeRestriction(t *testing.T) {
	// 2026-03-02 is a Monday. Days only: whole days, by UTC.
	days := `{"allowed_days":["mon","tue","mon"]}`
	openAt(t, days, "2026-03-02 00:00:00 +0000")
	openAt(t, days, "2026-03-03 23:59:59.999999999 +0000")
	closedAt(t, days, "2026-03-04 00:00:00 +0000")
	closedAt(t, days, "2026-03-01 23:59:59.999999999 +0000")
	closedAt(t, days, "2026-03-02 00:30:00 +0100") // Sunday by UTC
	openAt(t, days, "2026-03-04 00:30:00 +0100")   // Tuesday by UTC
	openAt(t, days, "1969-12-30 12:00:00 +0000")   // before Unix time: a Tuesday
	closedAt(t, days, "1969-12-31 12:00:00 +0000")
	closedAt(t, days, "1969-12-27 12:00:00 +0000") // a Saturday

	// Hours only: every day; start included, end excluded.
	office := `{"allowed_hours_utc":"09:00-17:30"}`
	openAt(t, office, "2026-03-07 09:00:00 +0000")
	openAt(t, office, "2026-03-08 17:29:59.999999999 +0000")
	closedAt(t, office, "2026-03-02 17:30:00 +0000")
	closedAt(t, office, "2026-03-02 08:59:59.999999999 +0000")
	openAt(t, office, "2026-03-02 08:00:00 -0100")
	closedAt(t, `{"allowed_hours_utc":"00:00-00:01"}`, "2026-03-02 00:01:00 +0000")
	openAt(t, `{"allowed_hours_utc":"00:00-00:01"}`, "2026-03-02 00:00:59 +0000")

	// 24:00 is the end of the day.
	openAt(t, `{"allowed_hours_utc":"00:00-24:00"}`, "2026-03-02 00:00:00 +0000")
	openAt(t, `{"allowed_hours_utc":"00:00-24:00"}`, "2026-03-02 23:59:59 +0000")
	for _, late := range []string{`{"allowed_days":["fri"],"allowed_hours_utc":"22:00-24:00"}`, `{"allowed_days":["fri"],"allowed_hours_utc":"22:00-00:00"}`} {
		openAt(t, late, "2026-03-06 23:59:59 +0000")
		closedAt(t, late, "2026-03-07 00:00:00 +0000")
		closedAt(t, late, "2026-03-06 00:00:00 +0000")
		closedAt(t, late, "2026-03-06 21:59:59 +0000")
	}
}

func TestTimeRestrictionAcrossMidnight(t *testing.T) {
	// A window across midnight belongs to the day on which it opened.
	night := `{"allowed_days":["fri","sun"],"allowed_hours_utc":"22:00-06:00"}`
	closedAt(t, night, "2026-03-06 03:00:00 +0000") // Friday, but Thursday's window
	closedAt(t, night, "2026-03-06 21:59:59 +0000")
	openAt(t, night, "2026-03-06 22:00:00 +0000")
	openAt(t, night, "2026-03-07 00:00:00 +0000")
	openAt(t, night, "2026-03-07 05:59:59 +0000") // Saturday, but Friday's window
	closedAt(t, night, "2026-03-07 06:00:00 +0000")
	closedAt(t, night, "2026-03-07 22:00:00 +0000")
	closedAt(t, night, "2026-03-08 05:00:00 +0000")
	openAt(t, night, "2026-03-08 23:00:00 +0000")
	openAt(t, night, "2026-03-09 05:59:59 +0000") // Monday, but Sunday's window
	closedAt(t, night, "2026-03-09 22:00:00 +0000")
	openAt(t, `{"allowed_hours_utc":"22:00-06:00"}`, "2026-03-04 03:00:00 +0000")
	closedAt(t, `{"allowed_hours_utc":"22:00-06:00"}`, "2026-03-04 12:00:00 +0000")

	// What is blank or null is absent.
	openAt(t, `{"allowed_days":["mon"],"allowed_hours_utc":" "}`, "2026-03-02 03:00:00 +0000")
	openAt(t, `{"allowed_days":null,"allowed_hours_utc":"02:00-04:00"}`, "2026-03-02 03:00:00 +0000")
}

// S12: every minute of a week against the calendar of package time.
func TestWeekMinute(t *testing.T) {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for i := range minutesPerWeek {
		now := monday.Add(time.Duration(i) * time.Minute)
		if got := weekMinuteOf(now); int(got) != i {
			t.Fatalf("minute %d of the week read as %d", i, got)
		}
		if got, want := weekMinute(i).String(), dayNames[(int(now.Weekday())+6)%7]+now.Format(" 15:04 UTC"); got != want {
			t.Fatalf("minute %d is %s, want %s", i, got, want)
		}
	}
}

func TestParseHours(t *testing.T) {
	f := func(s string, want error) {
		t.Helper()
		h, err := parseHours(s)
		if !errors.Is(err, want) {
			t.Errorf("S12 %q: %v, want %v", s, err, want)
		}
		if err == nil && h.String() != s {
			t.Errorf("S12 %q reads as %s", s, h)
		}
	}
	f("00:00-24:00", nil)
	f("09:05-17:30", nil)
	f("23:59-00:00", nil)
	f("22:00-06:00", nil)
	f("09:00-09:00", errHoursEqual)
	f("00:00-00:00", errHoursEqual)
	for _, s := range []string{
		"", "24:00-06:00", "24:00-24:00", "09:00-24:01", "09:60-10:00", "25:00-26:00", "9:00-17:00", "09:00-17:00 ", " 09:00-17:00",
		"09:00 - 17:00", "09:00–17:00", "0900-1700", "09.00-17.00", "09:00-17:0a", "-1:00-05:00", "09:00_17:00", "٠٩:٠٠-١٧:٠٠",
	} {
		f(s, errHoursForm)
	}
}
