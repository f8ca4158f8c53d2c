package postgres

import (
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// A node's note stands for a while, says since when the node has used its Redis, and goes with the node.
func TestNodes(t *testing.T) {
	t.Parallel()
	store := newCounting(t)
	note := NodeNote{Process: spend.NewID(time.Now()), Node: spend.NewID(time.Now()), Host: "a:9090", Redis: "one"}
	noted := func() time.Time {
		t.Helper()
		return must.Get(store.NoteNode(t.Context(), note))(t)
	}
	first := noted()
	if again := noted(); again != first {
		t.Errorf("since %v, and then %v", first, again)
	}
	note.Redis, note.Node = "two", spend.NewID(time.Now())
	changed := noted()
	nodes, now, err := store.Nodes(t.Context())
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%v, %v", nodes, err)
	}
	got := nodes[0]
	if !got.Started.Equal(first) || !got.Since.Equal(changed) || !changed.After(first) || got.Seen.Before(changed) || now.Before(got.Seen) {
		t.Errorf("%+v at %v", got, now)
	}
	if got.Started, got.Since, got.Seen = (time.Time{}), (time.Time{}), (time.Time{}); got != note {
		t.Errorf("%+v, want %+v", got, note)
	}
	old := func(of string) {
		t.Helper()
		must.Get(store.Reads.Exec(t.Context(), "UPDATE nodes SET seen = now() - $1::text::interval", of))(t)
	}
	count := func() (listed, kept int) {
		t.Helper()
		nodes, _, err := store.Nodes(t.Context())
		if err == nil {
			err = store.Reads.QueryRow(t.Context(), "SELECT count(*) FROM nodes").Scan(&kept)
		}
		must.Do(t, err)
		return len(nodes), kept
	}
	old("1 minute")
	if listed, kept := count(); listed != 0 || kept != 1 {
		t.Errorf("a node that was not seen for a minute: %d listed, %d kept", listed, kept)
	}
	old("2 days")
	must.Do(t, store.Tidy(t.Context(), time.Now()))
	if _, kept := count(); kept != 0 {
		t.Error("a node that is gone is kept")
	}
	noted()
	must.Do(t, store.RemoveNode(t.Context(), note.Process))
	if _, kept := count(); kept != 0 {
		t.Error("a node that stopped is kept")
	}
}
