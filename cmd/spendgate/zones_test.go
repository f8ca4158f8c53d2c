package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/sqlite"
	"spendgate/bench/must"
)

// zonesFleet starts nodes over one store, which look at a time of the test.
type zonesFleet struct {
	*testing.T
	store *sqlite.Store
	log   bytes.Buffer
	later time.Duration // than now
}

func newZonesFleet(t *testing.T) *zonesFleet {
	store := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"), slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(store.Close)
	return &zonesFleet{T: t, store: store}
}

func (f *zonesFleet) start(release string) *zones {
	return &zones{
		store: f.store, own: release, log: slog.New(slog.NewTextHandler(&f.log, nil)),
		now: func() time.Time { return time.Now().Add(f.later) },
	}
}

func (f *zonesFleet) looks(z *zones, ready bool, inForce, replaces string) {
	f.Helper()
	err := z.look(f.Context())
	if _, other := errors.AsType[*zonesError](err); (err == nil) != ready || err != nil && !other {
		f.Errorf("%s: ready %v: %v", z.own, ready, err)
	}
	if in, err := audit.ReadZones(f.Context(), f.store); err != nil || in.Release != inForce || in.Replaces != replaces {
		f.Errorf("after %s: %+v, %v", z.own, in, err)
	}
}

// A fleet through an upgrade, an upgrade that is undone, and nodes that come too late.
func TestZonesOfAFleet(t *testing.T) {
	fleet := newZonesFleet(t)
	start, f := fleet.start, fleet.looks
	const older, newer, newest = "2025c-000000000001", "2026f-000000000002", "2026g-000000000003"
	first, second := start(older), start(older)
	f(first, true, older, "")
	f(second, true, older, "")
	f(start("2025c-000000000009"), false, older, "") // the same release from elsewhere has no order
	upgraded := start(newer)
	f(upgraded, true, newer, older)
	f(first, true, newer, older) // it runs on
	f(start(older), true, newer, older)
	fleet.later = audit.ZonesOverlap + time.Minute
	f(first, true, newer, older)
	f(start(older), false, newer, older)
	f(start(newest), true, newest, newer)
	f(upgraded, true, newest, newer)
	f(start(newer), false, newest, newer) // a day later
	fleet.later = 0
	f(start(newer), true, newest, newer)
	f(start(older), false, newest, newer)
	if n := strings.Count(fleet.log.String(), "other time zones than this node"); n < 3 {
		t.Errorf("the log has %d warnings: %s", n, fleet.log.String())
	}
	alone := start(older)
	alone.alone = true
	f(alone, true, older, newest)
}

// Where nodes of the release in force run, the others are ready for a day and not longer.
func TestOtherZonesForADay(t *testing.T) {
	fleet := newZonesFleet(t)
	const older, newer = "2025c-000000000001", "2026f-000000000002"
	first, second := fleet.start(older), fleet.start(older)
	fleet.looks(first, true, older, "")
	fleet.looks(second, true, older, "")
	upgraded := fleet.start(newer)
	fleet.looks(upgraded, true, newer, older)
	fleet.later = audit.ZonesOverlap - time.Minute
	fleet.looks(upgraded, true, newer, older)
	fleet.looks(first, true, newer, older)
	fleet.later = audit.ZonesOverlap + time.Minute
	fleet.looks(upgraded, true, newer, newer) // which ends the overlap
	fleet.looks(first, false, newer, newer)
	fleet.later = 0 // the time of the record
	fleet.looks(second, false, newer, newer)
	fleet.looks(fleet.start(older), false, newer, newer)
	fleet.later = 40 * audit.ZonesOverlap
	fleet.looks(first, false, newer, newer)
	fleet.looks(upgraded, true, newer, newer)
	if n := strings.Count(fleet.log.String(), "other time zones than this node"); n < 3 {
		t.Errorf("the log has %d warnings: %s", n, fleet.log.String())
	}
	// The command goes back: the newer nodes have a day, and do not bring theirs into force again.
	fleet.later = 0
	must.Do(t, fleet.store.ChangeZones(t.Context(), audit.Actor{}, newer, older))
	fleet.looks(upgraded, true, older, newer)
	fleet.looks(second, true, older, newer)
	fleet.later = audit.ZonesOverlap + time.Minute
	fleet.looks(second, true, older, older)
	fleet.looks(upgraded, false, older, older)
	fleet.looks(upgraded, false, older, older)
	fleet.looks(fleet.start(newer), true, newer, older)
}

// An upgrade was tried on one node and undone: the others stay ready, and their release counts again.
func TestZonesOfAnUpgradeThatWasUndone(t *testing.T) {
	fleet := newZonesFleet(t)
	const older, newer, newest = "2025c-000000000001", "2026f-000000000002", "2026g-000000000003"
	first := fleet.start(older)
	fleet.looks(first, true, older, "")
	tried := fleet.start(newer)
	fleet.looks(tried, true, newer, older)
	fleet.looks(fleet.start(newest), true, newest, newer)
	fleet.looks(first, true, newest, newer)
	fleet.later = audit.ZonesOverlap + 59*time.Minute
	fleet.looks(first, true, newest, newer)
	fleet.looks(fleet.start(older), false, newest, newer) // it never was a node
	fleet.later = audit.ZonesOverlap + 61*time.Minute
	fleet.looks(first, true, older, newest)
	fleet.looks(fleet.start(older), true, older, newest)
	fleet.later = 0
	fleet.looks(fleet.start(newest), true, newest, older) // the next try
	fleet.looks(first, true, newest, older)
}

// overtaken is a store in which another node's change comes first.
type overtaken struct {
	*sqlite.Store
	by func()
}

func (o *overtaken) ChangeZones(ctx context.Context, by audit.Actor, seen, release string) error {
	if other := o.by; other != nil {
		o.by = nil
		other()
	}
	return o.Store.ChangeZones(ctx, by, seen, release)
}

// Of two newer releases that start at once the newest counts in the end.
func TestNewestZonesOfTwo(t *testing.T) {
	fleet := newZonesFleet(t)
	const older, newer, newest = "2025c-000000000001", "2026f-000000000002", "2026g-000000000003"
	fleet.looks(fleet.start(older), true, older, "")
	second := fleet.start(newest)
	second.store = &overtaken{fleet.store, func() { fleet.looks(fleet.start(newer), true, newer, older) }}
	fleet.looks(second, false, newer, older)
	fleet.looks(second, true, newest, newer)
}
