package main

import (
	"reflect"
	"regexp"
	"testing"
	"time"
)

// The same seed draws the same faults.
func TestScheduleFollowsItsSeed(t *testing.T) {
	names := func(seed uint64, only string) (all []string) {
		for _, p := range schedule(seed, time.Hour, regexp.MustCompile(only)) {
			all = append(all, p.name, p.lasts.String(), p.before.String())
		}
		return all
	}
	if a := names(1, ""); !reflect.DeepEqual(a, names(1, "")) || reflect.DeepEqual(a, names(2, "")) {
		t.Error("the schedule is not that of its seed")
	}
	kinds := make(map[string]bool)
	for _, p := range schedule(1, time.Hour, regexp.MustCompile("")) {
		kinds[p.name] = true
	}
	if len(kinds) != len(faults()) {
		t.Errorf("an hour draws %d of %d kinds of faults", len(kinds), len(faults()))
	}
	for _, p := range schedule(1, time.Hour, regexp.MustCompile("^flush redis$")) {
		if p.name != "flush redis" {
			t.Errorf("drew %q", p.name)
		}
	}
	if all := schedule(1, time.Second, regexp.MustCompile("in turn")); len(all) > 0 {
		t.Errorf("a second holds %d rolling restarts", len(all))
	}
}
