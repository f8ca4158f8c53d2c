package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
)

// TestSessionsEnded ends every session of the store, as a restart of the
// server does: no read, no commit and no fence may notice.
func TestSessionsEnded(t *testing.T) {
	name := strings.ToLower(rand.Text())
	url := fleet.TestSchema(t)
	s := open(t, with(t, url, "application_name", name), true)
	f := newFence(t, s)
	all := func() error {
		var wg sync.WaitGroup
		failed := make(chan error, 12)
		for range 4 {
			wg.Go(func() { failed <- audittest.Record(t.Context(), s, minimal(f)) })
			wg.Go(func() { _, err := s.Epoch(t.Context()); failed <- err })
			wg.Go(func() { failed <- s.Fence(t.Context(), spend.NewID(time.Now())) })
		}
		wg.Wait()
		close(failed)
		var err error
		for e := range failed {
			err = errors.Join(err, e)
		}
		return err
	}
	if err := all(); err != nil {
		t.Fatal(err)
	}
	killer := connect(t, url)
	for range 5 {
		var ended int
		if err := killer.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = $1`, name).Scan(&ended); err != nil || ended < 3 {
			t.Fatalf("ended %d sessions, %v", ended, err)
		}
		waitFor(t, url, "the sessions to end", "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '"+name+"')")
		if err := all(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreachable wants certain failures, soon: nobody listens, or somebody
// who never answers.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	mute := listener.Addr().String() // accepts, and that is all
	for what, hosts := range map[string]string{"nobody": "127.0.0.1:1", "mute": mute, "both": "127.0.0.1:1," + mute + "," + mute} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := open(t, "postgres://postgres@"+hosts+"/postgres?sslmode=disable", false)
			for doing, call := range map[string]func(context.Context) error{
				"commit": func(ctx context.Context) error { return audittest.Record(ctx, s, minimal(spend.Fence{})) },
				"fence":  func(ctx context.Context) error { return s.Fence(ctx, spend.ID{}) },
				"ping":   s.Ping,
				"key":    func(ctx context.Context) error { _, err := s.KeyByHash(ctx, spend.Hash{}); return err },
			} {
				start := time.Now()
				if err := call(t.Context()); !errors.Is(err, audit.ErrUnavailable) {
					t.Errorf("%s: got %v, want ErrUnavailable", doing, err)
				}
				if took := time.Since(start); took > 1800*time.Millisecond {
					t.Errorf("%s took %v", doing, took)
				}
			}
		})
	}
}

// TestReadOnlyServer refuses a server that takes no writes: a standby.
func TestReadOnlyServer(t *testing.T) {
	url := fleet.TestSchema(t)
	open(t, url, true)
	s := open(t, with(t, url, "default_transaction_read_only", "on"), false)
	if err := s.Ping(t.Context()); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("ping: got %v, want ErrUnavailable", err)
	}
	if err := audittest.Record(t.Context(), s, minimal(spend.Fence{})); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("commit: got %v, want ErrUnavailable", err)
	}
}

// TestDurability turns synchronous_commit off where a role or a database could
// (F17): the sessions and the fence turn it on again.
func TestDurability(t *testing.T) {
	url := with(t, fleet.TestSchema(t), "synchronous_commit", "off")
	s := open(t, url, true)
	if status, err := s.Status(t.Context()); err != nil || status.Safe == strings.Contains(status.Durability, " off") ||
		!strings.Contains(status.Durability, "synchronous_commit on") {
		t.Errorf("status %+v, %v", status, err)
	}
	f := newFence(t, s)
	for before, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		for _, call := range []string{"SELECT begin_commit($1, $2)", emptyCommit} {
			conn := connect(t, with(t, url, "synchronous_commit", before))
			var during, after string
			tx, err := conn.Begin(t.Context())
			if err == nil {
				_, err = tx.Exec(t.Context(), call, [16]byte(f.Node), [16]byte(f.Epoch))
			}
			if err == nil {
				err = tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&during)
			}
			if err == nil {
				err = tx.Rollback(t.Context())
			}
			if err == nil {
				err = conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&after)
			}
			if err != nil || during != want || after != before {
				t.Errorf("%s: %s became %s, then %s, %v; want %s", call, before, during, after, err, want)
			}
		}
	}
}
