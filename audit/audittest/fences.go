package audittest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// deploymentIsNamed: every reader gets the same ID.
func deploymentIsNamed(t *testing.T, s Subject) {
	first, err := s.Deployment(t.Context())
	if err != nil || first.IsZero() {
		t.Fatalf("deployment %x, %v", first, err)
	}
	if again, err := s.Deployment(t.Context()); err != nil || again != first {
		t.Errorf("deployment %x, then %x, %v", first, again, err)
	}
}

func staleEpoch(t *testing.T, s Subject) {
	ctx := t.Context()
	f := fence(t, s)
	before := newCheck(f)
	mustCommit(t, s, before)
	next := spend.NewID(now())
	current, err := s.RotateEpoch(ctx, f.Epoch, next)
	if err != nil || current != next {
		t.Fatalf("rotated to %x, %v; want %x", current, err, next)
	}
	c := keyed(newCheck(f), newKeyText())
	if err := Record(ctx, s, c); !errors.Is(err, audit.ErrStaleEpoch) {
		t.Errorf("got %v, want ErrStaleEpoch", err)
	}
	mustLack(t, s, c)
	c.Fence.Epoch = next
	mustCommit(t, s, c)
	mustHave(t, s, before, c)
	// A replacement of the old epoch fails.
	if current, err = s.RotateEpoch(ctx, f.Epoch, spend.NewID(now())); err != nil || current != next {
		t.Errorf("rotated to %x, %v; want %x to stay", current, err, next)
	}
	if current, err = s.Epoch(ctx); err != nil || current != next {
		t.Errorf("epoch is %x, %v; want %x", current, err, next)
	}
}

func fencedNode(t *testing.T, s Subject) {
	ctx := t.Context()
	f, other := fence(t, s), fence(t, s)
	before := newCheck(f)
	mustCommit(t, s, before)
	for range 2 { // repeating is harmless
		must(t, s.Fence(ctx, f.Node))
	}
	c := keyed(newCheck(f), newKeyText())
	if err := Record(ctx, s, c); !errors.Is(err, audit.ErrFencedNode) {
		t.Errorf("got %v, want ErrFencedNode", err)
	}
	mustLack(t, s, c)
	c.Fence.Node = spend.NewID(now()) // a new incarnation
	mustCommit(t, s, c, newCheck(c.Fence))
	mustCommit(t, s, newCheck(other))
	mustHave(t, s, before, c)
}

// fenceIsFinal fences a node while its commits are in progress: what is absent once Fence has
// returned stays absent (F1, F3).
func fenceIsFinal(t *testing.T, s Subject) {
	f := fence(t, s)
	stopIsFinal(t, s, f, audit.ErrFencedNode, func(ctx context.Context) error { return s.Fence(ctx, f.Node) })
}

// rotationIsFinal does the same as fenceIsFinal with the epoch (F2).
func rotationIsFinal(t *testing.T, s Subject) {
	f := fence(t, s)
	stopIsFinal(t, s, f, audit.ErrStaleEpoch, func(ctx context.Context) error {
		_, err := s.RotateEpoch(ctx, f.Epoch, spend.NewID(now()))
		return err
	})
}

func stopIsFinal(t *testing.T, s Subject, f spend.Fence, refusal error, stop func(context.Context) error) {
	const writers, size = 4, 8
	var mu sync.Mutex
	var begun, succeeded []*spend.Check
	enough := make(chan struct{})
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for after := 0; after < 3; { // commits that began after the fence
				if stopped.Load() {
					after++
				}
				batch := make([]*spend.Check, size)
				for i := range batch {
					batch[i] = newCheck(f)
				}
				mu.Lock()
				begun = append(begun, batch...)
				if len(begun) == 20*writers*size {
					close(enough)
				}
				mu.Unlock()
				err := Record(t.Context(), s, batch...)
				if errors.Is(err, refusal) {
					return
				}
				if err != nil && !errors.Is(err, audit.ErrUnknown) {
					t.Errorf("got %v", err)
				}
				if err == nil {
					mu.Lock()
					succeeded = append(succeeded, batch...)
					mu.Unlock()
				}
			}
			t.Error("was never refused")
		})
	}
	<-enough
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := stop(ctx)
	stopped.Store(true)
	if err != nil {
		t.Error(err)
	}
	mu.Lock()
	then := lookUp(t, s, begun...)
	mu.Unlock()
	wg.Wait()
	finally := lookUp(t, s, begun...)
	if len(finally) != len(then) {
		t.Errorf("%d checks were recorded when the fence stood, %d in the end", len(then), len(finally))
	}
	for _, c := range succeeded {
		if finally[c.ID] == nil {
			t.Errorf("check %x succeeded and is not recorded", c.ID)
		}
	}
}

// rotationRace lets many nodes replace one epoch: one succeeds, and all get the new epoch.
func rotationRace(t *testing.T, s Subject) {
	f := fence(t, s)
	const racers = 8
	told := make([]spend.ID, racers)
	winners := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			next := spend.NewID(now())
			current, err := s.RotateEpoch(t.Context(), f.Epoch, next)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if told[i] = current; current == next {
				winners++
			}
		})
	}
	wg.Wait()
	current := get(s.Epoch(t.Context()))(t)
	for _, id := range told {
		if id != current {
			t.Errorf("a node was told %x, the epoch is %x", id, current)
		}
	}
	if winners != 1 {
		t.Errorf("%d nodes won", winners)
	}
}
