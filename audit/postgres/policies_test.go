package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// Drafts, which are kept for ever too, leave versions half of the room.
func TestDraftsLeaveRoom(t *testing.T) {
	const each = 1000
	s := must.Get(Open(t.Context(), Options{
		URL: migrated(t), Logger: slog.New(slog.DiscardHandler), Migrate: true, MaxPolicyBytes: 6*each + each/2,
	}))(t)
	t.Cleanup(s.Close)
	text := strings.Repeat("r", each-len("pd{}"))
	create := func() error {
		p := &audit.Policy{PolicyID: "p", Name: "d", Rules: text, Metadata: "{}"}
		return s.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, time.Now())
	}
	must.Do(t, create())
	var last int64
	put := func() error {
		d := &audit.Draft{PolicyID: "p", Name: "d", Rules: text, Metadata: "{}", Replaces: last}
		err := s.PutDraft(t.Context(), audit.Actor{}, d, time.Now())
		last = d.Generation
		return err
	}
	for range 3 {
		must.Do(t, put())
	}
	if err := put(); !errors.Is(err, audit.ErrPoliciesFull) {
		t.Errorf("a draft more: %v", err)
	}
	must.Do(t, create())
	must.Do(t, create())
	if err := create(); !errors.Is(err, audit.ErrPoliciesFull) {
		t.Errorf("a version more: %v", err)
	}
}

// S87: whether the time of a freeze is over is compared before commits wait: a node whose clock is ahead asks again and again.
func TestEndsNoFreezeEarly(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f, _, err := s.CreateFreeze(t.Context(), audit.Actor{Credential: "01234567"}, audit.NewFreeze{
		ID: spend.NewID(time.Now()), Scope: audit.FreezeScope{Kind: audit.FreezeAll}, Reason: "a test",
		Until: time.Now().Add(time.Hour), Seen: -1,
	})
	must.Do(t, err)
	commit := must.Get(connect(t, url).Begin(t.Context()))(t)
	_, err = commit.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared('epoch'::regclass::oid::integer, 0)")
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	must.Do(t, s.EndFreeze(ctx, f))
}

// All versions of all policies together stay within their bound, however many are posted at once. A
// refused version leaves nothing behind, and keys can still be made.
func TestPoliciesAreBounded(t *testing.T) {
	url := migrated(t)
	const each, room = 1000, 7
	s, err := Open(t.Context(), Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true, MaxPolicyBytes: room*each + each/2})
	must.Do(t, err)
	t.Cleanup(s.Close)
	policy := func(i int) *audit.Policy {
		p := &audit.Policy{PolicyID: fmt.Sprint("p", i%3), Name: "ß", Description: "d", Metadata: "{}"}
		p.Rules = strings.Repeat("r", each-len(p.PolicyID+p.Name+p.Description+p.Metadata))
		return p
	}
	var stored atomic.Int64
	var wg sync.WaitGroup
	for i := range 2 * room {
		wg.Go(func() {
			err := s.CreatePolicy(t.Context(), audit.Actor{}, policy(i), audit.NewBudgets{}, time.Now())
			if err == nil {
				stored.Add(1)
			} else if !errors.Is(err, audit.ErrPoliciesFull) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := stored.Load(); n != room {
		t.Errorf("%d policies of %d bytes are stored", n, each)
	}
	before := must.Get(s.ConfigChanges(t.Context(), 0))(t)
	if err := s.CreatePolicy(t.Context(), audit.Actor{}, policy(0), audit.NewBudgets{}, time.Now()); !errors.Is(err, audit.ErrPoliciesFull) {
		t.Errorf("one more: %v", err)
	}
	after, err := s.ConfigChanges(t.Context(), 0)
	if err != nil || after.Generation != before.Generation {
		t.Errorf("a policy that was refused made generation %d of %d, %v", after.Generation, before.Generation, err)
	}
	wider := open(t, url, false) // another node, without a bound
	must.Check(t, wider.CreatePolicy(t.Context(), audit.Actor{}, policy(0), audit.NewBudgets{}, time.Now()))
}
