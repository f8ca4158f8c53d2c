package main

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/sqlite"
)

// A fleet through an upgrade, an upgrade that is undone, and nodes that come too late. now+ is when the
// node looks.
func TestZonesOfAFleet(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log bytes.Buffer
	var later time.Duration
	start := func(release string) *zones {
		return &zones{
			store: store, own: release, log: slog.New(slog.NewTextHandler(&log, nil)),
			now: func() time.Time { return time.Now().Add(later) },
		}
	}
	f := func(z *zones, ready bool, inForce, replaces string) {
		t.Helper()
		err := z.look(t.Context())
		if _, other := errors.AsType[*zonesError](err); (err == nil) != ready || err != nil && !other {
			t.Errorf("%s: ready %v: %v", z.own, ready, err)
		}
		if in, err := audit.ReadZones(t.Context(), store); err != nil || in.Release != inForce || in.Replaces != replaces {
			t.Errorf("after %s: %+v, %v", z.own, in, err)
		}
	}
	const older, newer, newest = "2025c-000000000001", "2026f-000000000002", "2026g-000000000003"
	first, second := start(older), start(older)
	f(first, true, older, "")
	f(second, true, older, "")
	f(start("2025c-000000000009"), false, older, "") // the same release from elsewhere has no order
	upgraded := start(newer)
	f(upgraded, true, newer, older)
	f(first, true, newer, older) // it runs on
	f(start(older), true, newer, older)
	later = audit.ZonesOverlap + time.Minute
	f(first, true, newer, older)
	f(start(older), false, newer, older)
	f(start(newest), true, newest, newer)
	f(upgraded, true, newest, newer)
	f(start(newer), false, newest, newer) // a day later
	later = 0
	f(start(newer), true, newest, newer)
	f(start(older), false, newest, newer)
	if n := strings.Count(log.String(), "other time zones than this node"); n < 3 {
		t.Errorf("the log has %d warnings: %s", n, log.String())
	}
	alone := start(older)
	alone.alone = true
	f(alone, true, older, newest)
}
