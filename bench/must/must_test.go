package must_test

import (
	"errors"
	"slices"
	"testing"

	"spendgate/bench/must"
)

// ended notes with what a test was ended.
type ended struct {
	testing.TB
	with []any
}

func (e *ended) Helper()           {}
func (e *ended) Fatal(args ...any) { e.with = args }
func (e *ended) Error(args ...any) { e.with = args }

func TestAnErrorEndsTheTest(t *testing.T) {
	failed := errors.New("made to fail")
	for what, call := range map[string]func(testing.TB, error){
		"Do":    must.Do,
		"Check": must.Check,
		"Get":   func(t testing.TB, err error) { must.Get(1, err)(t) },
	} {
		e := &ended{TB: t}
		if call(e, nil); e.with != nil {
			t.Errorf("%s ends a test without an error: %v", what, e.with)
		}
		if call(e, failed); !slices.Equal(e.with, []any{failed}) {
			t.Errorf("%s ends the test with %v; want %v", what, e.with, failed)
		}
	}
	if got := must.Get(1, nil)(t); got != 1 {
		t.Errorf("got %d", got)
	}
}
