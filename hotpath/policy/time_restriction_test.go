package policy

import (
	"errors"
	"testing"
	"time"
)

// S12: every minute of a week against the calendar of package time.
func TestWeekMinute(t *testing.T) {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for i := range minutesPerWeek {
		now := monday.Add(time.Duration(i) * time.Minute)
		if got := weekMinuteOf(now.Unix()); int(got) != i {
			t.Fatalf("minute %d of the week read as %d", i, got)
		}
		if got, want := weekMinute(i).String(), dayNames[(int(now.Weekday())+6)%7]+now.Format(" 15:04"); got != want {
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
