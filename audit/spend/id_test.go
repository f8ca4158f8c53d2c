package spend

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestID(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 11, 12, 34_567_890, time.FixedZone("", 3600))
	id := NewID(now)
	text := id.Text(PrefixCheck)
	// A UUIDv7: version 7, variant 10.
	if !regexp.MustCompile(`^chk_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$`).MatchString(text) {
		t.Errorf("%s is no UUIDv7", text)
	}
	if want := now.Truncate(time.Millisecond).UTC(); id.Time() != want {
		t.Errorf("time %v, want %v", id.Time(), want)
	}
	if back, err := ParseID(text, PrefixCheck); err != nil || back != id {
		t.Errorf("came back as %v, %v", back, err)
	}
	if id.IsZero() || !(ID{}).IsZero() {
		t.Error("IsZero")
	}
}

func TestIDsSortByTime(t *testing.T) {
	start := time.Now()
	var last ID
	for i := range 5000 {
		id := NewID(start.Add(time.Duration(i) * 250 * time.Nanosecond)) // finer than a 4096th of a millisecond
		if i > 0 && bytes.Compare(id[:8], last[:8]) < 0 {
			t.Fatalf("%x after %x", id, last)
		}
		if id == last {
			t.Fatal("one ID twice")
		}
		last = id
	}
}

func TestParseIDRefuses(t *testing.T) {
	good := NewID(time.Now()).Text(PrefixCheck)
	for _, s := range []string{
		"", PrefixCheck, good[:len(good)-1], good + "0", strings.ToUpper(good), "CHK_" + good[4:], good[4:],
		PrefixViolation + good[4:], good[:10] + "G" + good[11:], good[:10] + "-" + good[11:], " " + good, good[:35] + "é",
	} {
		if id, err := ParseID(s, PrefixCheck); !errors.Is(err, ErrBadID) {
			t.Errorf("%q is %v, %v", s, id, err)
		}
	}
}
