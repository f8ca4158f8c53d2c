package spend

import (
	"testing"
	"time"
)

func TestAppendTime(t *testing.T) {
	f := func(in time.Time, want string) {
		t.Helper()
		if got := string(AppendTime(nil, in)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(time.UnixMilli(1795169472034), "2026-11-20T10:11:12.034Z")
	f(time.UnixMilli(0), "1970-01-01T00:00:00.000Z")
	f(time.Date(2026, 1, 1, 1, 0, 0, 999_999_999, time.FixedZone("", 7200)), "2025-12-31T23:00:00.999Z")
}
