package audittest

import (
	"sync"
	"testing"
	"time"

	"spendgate/audit"
)

// zonesChange: the newest change says which release of the time zones is in force; of nodes that change one
// release at once, one does.
func zonesChange(t *testing.T, s Subject) {
	ctx, by := t.Context(), audit.Actor{Principal: "spendgate"}
	f := func(want audit.ZonesInForce) {
		t.Helper()
		z, err := audit.ReadZones(ctx, s)
		if at := z.At; err != nil || z != (audit.ZonesInForce{Release: want.Release, Replaces: want.Replaces, At: at}) {
			t.Errorf("got %+v, %v, want %+v", z, err, want)
		}
	}
	f(audit.ZonesInForce{})
	change := func(seen, release string) {
		t.Helper()
		if err := s.ChangeZones(ctx, by, seen, release); err != nil {
			t.Error(err)
		}
	}
	change("", "2025c-1")
	f(audit.ZonesInForce{Release: "2025c-1"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { change("2025c-1", "2026f-2") })
	}
	wg.Wait()
	f(audit.ZonesInForce{Release: "2026f-2", Replaces: "2025c-1"})
	change("2025c-1", "2026b-3") // which is not in force
	f(audit.ZonesInForce{Release: "2026f-2", Replaces: "2025c-1"})
	changes, err := s.Changes(ctx, audit.ChangeQuery{KeyID: audit.ZonesSubject, Limit: 9})
	if err != nil || len(changes) != 2 || changes[1].Kind != audit.ZonesChanged || changes[1].By.Principal != "spendgate" ||
		changes[1].Seq != changes[0].Seq+1 || time.Since(changes[1].At).Abs() > time.Hour {
		t.Errorf("got %+v, %v", changes, err)
	}
	for range 101 { // more than a page
		change("2026f-2", "2026b-3")
		change("2026b-3", "2026f-2")
	}
	f(audit.ZonesInForce{Release: "2026f-2", Replaces: "2026b-3"})
	change("2026f-2", "2026f-2") // the overlap is over
	f(audit.ZonesInForce{Release: "2026f-2", Replaces: "2026f-2"})
}
