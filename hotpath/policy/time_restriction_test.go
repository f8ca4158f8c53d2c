package policy

import (
	"errors"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

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

// S89: when clocks are set back, a window ends at its end's first showing; when they skip its ends, at the change.
func TestHoursWhenClocksChange(t *testing.T) {
	f := func(hours, at string, open bool) {
		t.Helper()
		now := must.Get(time.Parse(time.RFC3339, at))(t)
		p := mustCompile(t, rule1("time_restriction", `{"allowed_hours":"`+hours+`","time_zone":"Europe/Berlin"}`))
		if found := p.Evaluate(action(t), named(spend.Spend), now); (found.Effect == spend.Allow) != open {
			t.Errorf("%s at %s: open is %t", hours, at, !open)
		}
	}
	f("00:00-02:30", "2026-10-25T00:29:59Z", true)
	f("00:00-02:30", "2026-10-25T00:30:00Z", false)
	f("00:00-02:30", "2026-10-25T01:10:00Z", false) // 02:10 again
	f("02:30-04:00", "2026-10-25T01:10:00Z", true)  // 02:30 was shown
	f("03:00-04:00", "2026-10-25T01:59:59Z", false)
	f("03:00-04:00", "2026-10-25T02:00:00Z", true)
	f("02:30-03:30", "2026-03-29T00:59:59Z", false)
	f("02:30-03:30", "2026-03-29T01:00:00Z", true) // 03:00, and 02:30 was skipped
	f("02:15-02:45", "2026-03-29T01:00:00Z", false)
}
