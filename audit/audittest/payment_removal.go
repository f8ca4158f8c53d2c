package audittest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// old returns until when payments are removed here: those of Subject.AgePayments.
func old() time.Time { return now().Add(-spend.PaymentsKept - day) }

// mustAge makes all payments unchanged for long.
func mustAge(t *testing.T, s Subject) {
	t.Helper()
	must(t, s.Exec(t, s.AgePayments))
}

// mustRemove demands how many of the payments are removed.
func mustRemove(t *testing.T, s Subject, want int, payments ...*spend.Payment) {
	t.Helper()
	if n, err := s.RemovePayments(t.Context(), payments, old()); err != nil || n != want {
		t.Errorf("%d are removed, %v, want %d", n, err, want)
	}
}

// paymentsLeave: payments that were not changed for long are found, and removed on record if they still have their version;
// they begin anew (S84).
func paymentsLeave(t *testing.T, s Subject) {
	f := fence(t, s)
	gone, moved, young, own := newPayment(), newPayment(), newPayment(), newPayment()
	first := of(gone, newCheck(f))
	mustCommit(t, s, first, of(moved, newCheck(f)))
	mustReport(t, s, moves(own, moves(gone, redemption(f, first))))
	mustAge(t, s)
	mustRemove(t, s, 0, gone) // a check of it is redeemed, and nothing was reported
	mustReport(t, s, moves(own, moves(gone, step(f, first, 2, spend.Executed))))
	mustCommit(t, s, of(gone, newCheck(f)))
	mustAge(t, s)
	read := *moved
	mustCommit(t, s, of(moved, newCheck(f)), of(young, newCheck(f)))
	before := mustRecord(t, s, audit.ChangeQuery{})
	unchanged := func() (found []spend.Hash) {
		must(t, s.UnchangedPayments(t.Context(), old(), func(some []spend.Hash) error {
			found = append(found, some...)
			return nil
		}))
		return found
	}
	must(t, s.Exec(t, fmt.Sprintf("UPDATE redeemable SET from_ms = %d", now().Add(-time.Hour).UnixMilli())))
	if found := unchanged(); len(found) > 0 { // a restore lost what became of them
		t.Errorf("after a restore unchanged are %x", found)
	}
	must(t, s.Exec(t, "UPDATE redeemable SET from_ms = 0"))
	found := unchanged()
	if want := []spend.Hash{gone.Hash(), own.Hash()}; len(found) != 2 || !slices.Contains(found, want[0]) || !slices.Contains(found, want[1]) {
		t.Errorf("unchanged are %x, want %x", found, want)
	}
	if _, err := s.RemovePayments(t.Context(), []*spend.Payment{gone}, now().Add(time.Minute-spend.PaymentsKept)); err == nil {
		t.Error("payments are removed that are younger")
	}
	mustRemove(t, s, 0, moved, &read, young)
	mustBePayment(t, s, gone, moved, young, own)
	mustRemove(t, s, 1, gone, moved)
	mustRemove(t, s, 0, gone)
	mustBePayment(t, s, moved, young, own)
	changes := mustRecord(t, s, audit.ChangeQuery{})[len(before):]
	if len(changes) != 1 {
		t.Fatalf("recorded are %+v", changes)
	}
	c := changes[0]
	removal, err := audit.ParsePaymentsRemoval(c.Details)
	if err != nil || c.Kind != audit.PaymentsRemoved || c.Subject != audit.PaymentsSubject || c.By != audit.Keeper() ||
		len(removal.Versions) != 1 || removal.Versions[gone.Hash()] != gone.Version || now().Sub(removal.Before) < spend.PaymentsKept {
		t.Errorf("recorded is %+v, %v", c, err)
	}

	after := *gone // as of a commit that has read it
	mustMove(t, s, []*spend.Check{of(&after, newCheck(f))}, nil, &after)
	anew := &spend.Payment{Namespace: gone.Namespace, Key: gone.Key}
	again := of(anew, newCheck(f))
	mustCommit(t, s, again)
	mustBePayment(t, s, anew, moved, young, own)
	late := *gone // another one that had read it, at a version that it has again
	late.Version = anew.Version
	mustMove(t, s, []*spend.Check{of(&late, newCheck(f))}, nil, &late)
	mustBePayment(t, s, anew, moved, young, own)
	page, err := s.ListChecks(t.Context(), audit.CheckQuery{Payment: gone.Hash(), Limit: 9, Examine: 9})
	if err != nil || len(page.Checks) != 1 || page.Checks[0].ID != again.ID {
		t.Errorf("listed are %+v, %v", page.Checks, err)
	}
	page, err = s.ListChecks(t.Context(), audit.CheckQuery{Payment: own.Hash(), Limit: 9, Examine: 9})
	if err != nil || len(page.Checks) != 1 {
		t.Errorf("of the executor's are listed %+v, %v", page.Checks, err)
	}
}

// paymentsLeaveAmidCommits: a payment that is removed while commits change it and another node removes it is changed, or removed once;
// no commit makes it again from what it was.
func paymentsLeaveAmidCommits(t *testing.T, s Subject) {
	for range 10 {
		p := newPayment()
		mustCommit(t, s, of(p, newCheck(fence(t, s))))
		mustAge(t, s)
		var wg sync.WaitGroup
		var removed [2]int
		for i := range removed {
			wg.Go(func() {
				err := audit.ErrUnavailable // commits do not wait for a removal for long
				for errors.Is(err, audit.ErrUnavailable) {
					removed[i], err = s.RemovePayments(t.Context(), []*spend.Payment{p}, old())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		var changed [3]*spend.Payment
		for i := range changed {
			f, after := fence(t, s), *p
			c := of(&after, newCheck(f))
			wg.Go(func() {
				err := Record(t.Context(), s, c)
				if _, moved := errors.AsType[*audit.PaymentsMovedError](err); err == nil {
					changed[i] = &after
				} else if !moved {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		left := slices.DeleteFunc(changed[:], func(p *spend.Payment) bool { return p == nil })
		if removed[0]+removed[1]+len(left) != 1 {
			t.Fatalf("%d are removed, and %d changed", removed, len(left))
		}
		mustBePayment(t, s, left...)
		if n := s.Count(t, "SELECT count(*) FROM payments"); n != len(left) {
			t.Fatalf("%d payments are left", n)
		}
		mustRemoveAll(t, s, left)
	}
}

func mustRemoveAll(t *testing.T, s Subject, payments []*spend.Payment) {
	t.Helper()
	mustAge(t, s)
	mustRemove(t, s, len(payments), payments...)
}
