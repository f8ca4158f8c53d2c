package cli

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// IsSet reports whether the flag was given, to tell a missing flag from a zero value.
func IsSet(flags *flag.FlagSet, name string) bool {
	found := false
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// TimeFlag is an instant, or a date, which means the whole UTC day.
type TimeFlag struct {
	At   time.Time
	Last bool // of a day the last millisecond counts
	date bool // it was given as a date
}

// UntilFlag is an instant to come, also as how long from now.
type UntilFlag struct{ TimeFlag }

// Set implements flag.Value.
func (f *UntilFlag) Set(text string) error {
	if left, err := time.ParseDuration(text); err == nil && left > 0 {
		f.At = time.Now().Add(left)
		return nil
	}
	if err := f.TimeFlag.Set(text); err != nil {
		return fmt.Errorf("%w, or how long from now (2h)", err)
	}
	return nil
}

func (f *TimeFlag) String() string { return "" }

// Set implements flag.Value.
func (f *TimeFlag) Set(text string) (err error) {
	if f.At, err = time.Parse(time.DateOnly, text); err == nil {
		f.date = true
		f.In(time.UTC)
		return nil
	}
	if f.At, err = time.Parse(time.RFC3339, text); err != nil {
		return errors.New("must be a date (2026-03-01) or a time (2026-03-01T12:00:00Z)")
	}
	return nil
}

// In has a date be one of a zone.
func (f *TimeFlag) In(zone *time.Location) {
	if !f.date {
		return
	}
	year, month, day := f.At.Date()
	if f.At = time.Date(year, month, day, 0, 0, 0, 0, zone); f.Last {
		f.At = time.Date(year, month, day+1, 0, 0, 0, 0, zone).Add(-time.Millisecond)
	}
}

var _ flag.Value = (*TimeFlag)(nil)

// NotEmpty stores a flag's value and refuses an empty one: a variable that a script never set
// must not have the effect of a flag that was left out.
func NotEmpty(to *string) func(string) error {
	return func(text string) error {
		if text == "" {
			return errors.New("must not be empty")
		}
		*to = text
		return nil
	}
}

// EachNotEmpty is like notEmpty, for a flag that may be given more than once.
func EachNotEmpty(to *[]string) func(string) error {
	return func(text string) error {
		var one string
		err := NotEmpty(&one)(text)
		*to = append(*to, one)
		return err
	}
}
