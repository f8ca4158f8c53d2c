package detach

import (
	"errors"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestWhyACopyEnded: the cause is told once, and nothing that only follows from it.
func TestWhyACopyEnded(t *testing.T) {
	url := migrated(t)
	store := open(t, url)
	must.Do(t, audittest.Record(t.Context(), store, minimal(newFence(t, store))))
	once := func(err error, cause string) {
		t.Helper()
		if err == nil || strings.Count(err.Error(), cause) != 1 || strings.Contains(err.Error(), "the rows end too early") {
			t.Errorf("got %v, want %q once", err, cause)
		}
	}
	s := must.Get(snapshot.Open(t.Context(), url, 1))(t)
	defer s.Close()
	refused := errors.New("made to fail")
	once(s.Rows(t.Context(), verify.Range{High: audit.MaxID()}, func([]byte) error { return refused }), refused.Error())
	d := must.Get(openDays(t.Context(), url))(t)
	defer d.close()
	for _, err := range d.rows(t.Context(), day{date: time.Unix(0, 0).UTC()}) {
		once(err, `relation "checks_19700101" does not exist`)
	}
}
