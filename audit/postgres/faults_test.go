package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

func answerLost(t *testing.T, lose func(*proxy) error) {
	url := migrated(t)
	direct := open(t, url, true)
	p := newProxy(t, url)
	s := open(t, p.url, false)
	c := long(newFence(t, s))
	must.Do(t, lose(p))
	if err := audittest.Record(t.Context(), s, c); !errors.Is(err, audit.ErrUnknown) {
		t.Fatalf("got %v, want ErrUnknown", err)
	}
	must.Do(t, s.Fence(t.Context(), c.Fence.Node))
	if !recorded(t, direct, c) {
		t.Error("the check is not recorded")
	}
	next := long(newFence(t, s))
	if err := audittest.Record(t.Context(), s, next); err != nil {
		t.Errorf("the next commit: %v", err)
	}
}

// TestCommitStuck keeps the last byte of a commit from the database, and the
// client's end, too: its session holds the locks for ever. The fence ends it
// (F16), and the late byte changes nothing.
func TestCommitStuck(t *testing.T) {
	const patience = 5 * time.Second // a machine may be busy; alone it takes 0.4 s
	for what, end := range map[string]func(context.Context, *Store, spend.Fence) error{
		"fence": func(ctx context.Context, s *Store, f spend.Fence) error { return s.Fence(ctx, f.Node) },
		"rotation": func(ctx context.Context, s *Store, f spend.Fence) error {
			_, err := s.RotateEpoch(ctx, f.Epoch, spend.NewID(time.Now()))
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			url := migrated(t)
			direct := open(t, url, true)
			p := newProxy(t, url)
			s := open(t, p.url, false)
			c := long(newFence(t, s))
			p.lose(1)
			if err := audittest.Record(t.Context(), s, c); !errors.Is(err, audit.ErrUnknown) {
				t.Fatalf("got %v, want ErrUnknown", err)
			}
			waitFor(t, url, "the commit to be stuck", `SELECT count(*) = 2 FROM `+fleet.TestLocks+`
				WHERE classid IN ('fenced_nodes'::regclass, 'epoch'::regclass) AND granted`)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			must.Do(t, end(ctx, direct, c.Fence))
			if took := time.Since(start); took < 300*time.Millisecond {
				t.Errorf("ended the session after %v, before it had its chance", took)
			}
			_ = p.deliver() // may meet a closed connection
			if recorded(t, direct, c) {
				t.Error("the check is recorded after all")
			}
		})
	}
}

// TestDeadline lets the context end in a commit that does not: unknown, at
// once, and without a cancel request that would cut a wait for a standby.
func TestDeadline(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	if err := audittest.Record(t.Context(), s, minimal(f)); err != nil { // connects
		t.Fatal(err)
	}
	blocker := connect(t, url)
	must.Get(blocker.Exec(t.Context(), "BEGIN; LOCK TABLE checks IN EXCLUSIVE MODE"))(t)
	c := minimal(f)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := audittest.Record(ctx, s, c); !errors.Is(err, audit.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	must.Get(blocker.Exec(t.Context(), "COMMIT"))(t)
	must.Do(t, s.Fence(t.Context(), f.Node))
	if !recorded(t, s, c) {
		t.Error("the abandoned commit was cut off")
	}
}

// TestFenceWaits lets a commit end that is merely slow (F1).
func TestFenceWaits(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	slow := connect(t, url)
	must.Get(slow.Exec(t.Context(), "BEGIN ISOLATION LEVEL READ COMMITTED"))(t)
	must.Get(slow.Exec(t.Context(), "SELECT begin_commit($1, $2)", [16]byte(f.Node), [16]byte(f.Epoch)))(t)
	fenced := make(chan error, 1)
	go func() { fenced <- s.Fence(t.Context(), f.Node) }()
	waitFor(t, url, "a fence that waits",
		`SELECT EXISTS (SELECT FROM `+fleet.TestLocks+` WHERE classid = 'fenced_nodes'::regclass AND NOT granted)`)
	select {
	case err := <-fenced:
		t.Fatalf("fenced amid a commit: %v", err)
	default:
	}
	if _, err := slow.Exec(t.Context(), "COMMIT"); err != nil {
		t.Errorf("the slow commit was ended: %v", err)
	}
	if err := <-fenced; err != nil {
		t.Error(err)
	}
}

// TestFenceSparesTheQueue lets a commit queue behind a rotation that waits for a
// stuck one. It gets the lock when the waiter gives up, and is not ended with
// the stuck one. A busy machine may miss a moment of a third of a second (F51).
func TestFenceSparesTheQueue(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	var err error
	for range 5 {
		if err = commitBehindARotation(t, s, url); err == nil {
			return
		}
	}
	t.Error(err)
}

func commitBehindARotation(t *testing.T, s *Store, url string) error {
	f := newFence(t, s)
	stuck, queued, watch := connect(t, url), connect(t, url), connect(t, url)
	enter := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT begin_commit('%x', '%x')", f.Node, f.Epoch)
	if _, err := stuck.Exec(t.Context(), enter); err != nil {
		return err
	}
	rotated := make(chan error, 1)
	go func() {
		_, err := s.RotateEpoch(t.Context(), f.Epoch, spend.NewID(time.Now()))
		rotated <- err
	}()
	err := until(t, watch, `SELECT EXISTS (SELECT FROM `+fleet.TestLocks+` WHERE classid = 'epoch'::regclass AND NOT granted)`)
	if err == nil {
		_, err = queued.Exec(t.Context(), enter)
	}
	if err == nil {
		err = until(t, watch, fmt.Sprintf(`SELECT NOT EXISTS (SELECT FROM `+fleet.TestLocks+` WHERE classid = 'epoch'::regclass AND pid = %d)`,
			stuck.PgConn().PID()))
	}
	if err == nil {
		_, err = queued.Exec(t.Context(), "COMMIT")
	}
	return errors.Join(err, queued.Close(t.Context()), <-rotated)
}

// TestBeginReadsBehindTheLock lets a commit wait for its locks while the epoch or
// the node ends: it must see that, though it began before.
func TestBeginReadsBehindTheLock(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	known := calendar(t, s, "known", "1000")
	unknown := func(f spend.Fence) *spend.Check {
		c := minimal(f)
		c.Action.AgentID = c.ID.Text("")
		charge(c)
		return c
	}
	for name, check := range map[string]func(spend.Fence) *spend.Check{"record": minimal, "calendar": known, "whole": unknown} {
		t.Run(name, func(t *testing.T) {
			beginsBehindTheLock(t, url, s, func(f spend.Fence) error { return audittest.Record(t.Context(), s, check(f)) })
		})
	}
	t.Run("redeem", func(t *testing.T) {
		beginsBehindTheLock(t, url, s, func(f spend.Fence) error {
			return audittest.RecordAll(t.Context(), s, nil, redemption(minimal(f)))
		})
	})
}

func beginsBehindTheLock(t *testing.T, url string, s *Store, commit func(spend.Fence) error) {
	for _, test := range []struct {
		sql  string
		want error
	}{
		{"SELECT fence_node($1)", audit.ErrFencedNode},
		{"SELECT rotate_epoch((SELECT id FROM epoch), $1)", audit.ErrStaleEpoch},
	} {
		f := newFence(t, s)
		other := connect(t, url)
		must.Get(other.Exec(t.Context(), "BEGIN"))(t)
		must.Get(other.Exec(t.Context(), test.sql, [16]byte(f.Node)))(t)
		outcome := make(chan error, 1)
		go func() { outcome <- commit(f) }()
		waitFor(t, url, "a commit that waits", `SELECT EXISTS (SELECT FROM `+fleet.TestLocks+`
			WHERE classid IN ('fenced_nodes'::regclass, 'epoch'::regclass) AND NOT granted)`)
		must.Get(other.Exec(t.Context(), "COMMIT"))(t)
		if err := <-outcome; !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", test.sql, err, test.want)
		}
	}
}

// emptyRecord commits a batch of nothing.
const emptyRecord = "SELECT record_checks($1, $2, 0::bigint, NULL, NULL, false, NULL, 1::bigint, 1::smallint, $1, $1, '', '', NULL)"

// TestStricterIsolation refuses commits whose snapshot could be older than the
// locks: under REPEATABLE READ a stale epoch would pass.
func TestStricterIsolation(t *testing.T) {
	url := migrated(t)
	f := newFence(t, open(t, url, true))
	for level, allowed := range map[string]bool{"READ COMMITTED": true, "REPEATABLE READ": false, "SERIALIZABLE": false} {
		for _, call := range []string{"SELECT begin_commit($1, $2)", emptyRecord} {
			conn := connect(t, url)
			must.Get(conn.Exec(t.Context(), "BEGIN ISOLATION LEVEL "+level))(t)
			_, err := conn.Exec(t.Context(), call, [16]byte(f.Node), [16]byte(f.Epoch))
			if (err == nil) != allowed {
				t.Errorf("%s: %s: got %v", level, call, err)
			}
			if err := conn.Close(t.Context()); err != nil { // and what it locked
				t.Error(err)
			}
		}
	}
	// A role may default to another one: the sessions set theirs.
	s := open(t, with(t, url, "default_transaction_isolation", "serializable"), false)
	must.Check(t, audittest.Record(t.Context(), s, minimal(f)))
}

// TestKeysAreTakenInOrder has a commit wait for its first key by hash while its
// other one, sent before, is not taken yet: no two commits can deadlock (F14).
func TestKeysAreTakenInOrder(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	batch := []*spend.Check{minimal(f), minimal(f)}
	batch[0].Action.IdempotencyKey, batch[1].Action.IdempotencyKey = "a", "b"
	first, second := spend.HashKey("a"), spend.HashKey("b")
	if bytes.Compare(first[:], second[:]) < 0 {
		t.Fatal("the keys do not try the order")
	}
	const take = "INSERT INTO idempotency_keys (key_hash, check_id, expires_at) VALUES ($1, $2, now() + interval '1 day')"
	blocker := connect(t, url)
	must.Get(blocker.Exec(t.Context(), "BEGIN"))(t)
	must.Get(blocker.Exec(t.Context(), take, second[:], [16]byte(batch[1].ID)))(t)
	outcome := make(chan error, 1)
	go func() { outcome <- audittest.Record(t.Context(), s, batch...) }()
	waitFor(t, url, "a commit that waits", commitWaits)
	if _, err := connect(t, with(t, url, "lock_timeout", "100ms")).Exec(t.Context(), take, first[:], [16]byte(batch[0].ID)); err != nil {
		t.Errorf("the later key is taken already: %v", err)
	}
	must.Get(blocker.Exec(t.Context(), "ROLLBACK"))(t)
	if taken, ok := errors.AsType[*audit.KeysTakenError](<-outcome); !ok || !slices.Equal(taken.Hashes, []spend.Hash{first}) {
		t.Errorf("got %v, want the one key taken", taken)
	}
}

// TestSessionsEnded ends every session of the store, as a restart of the
// server does: no read, no commit and no fence may notice.
func TestSessionsEnded(t *testing.T) {
	name := strings.ToLower(rand.Text())
	url := migrated(t)
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
	must.Do(t, all())
	killer := connect(t, url)
	for range 5 {
		var ended int
		if err := killer.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = $1`, name).Scan(&ended); err != nil || ended < 3 {
			t.Fatalf("ended %d sessions, %v", ended, err)
		}
		waitFor(t, url, "the sessions to end", "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '"+name+"')")
		must.Do(t, all())
	}
}

// TestReadOnlyServer refuses a server that takes no writes: a standby.
func TestReadOnlyServer(t *testing.T) {
	url := migrated(t)
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
	url := with(t, migrated(t), "synchronous_commit", "off")
	s := open(t, url, true)
	if status, err := s.Status(t.Context()); err != nil || status.Safe == strings.Contains(status.Durability, " off") ||
		!strings.Contains(status.Durability, "synchronous_commit on") {
		t.Errorf("status %+v, %v", status, err)
	}
	f := newFence(t, s)
	for before, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		for _, call := range []string{"SELECT begin_commit($1, $2)", emptyRecord} {
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
