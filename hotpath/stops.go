package hotpath

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Deactivating a key stops what the key was allowed and nobody redeemed (S87). The row of a check has the last stop by which
// it was judged, so a check was stopped if its key was stopped later.

// ErrCheckStopped refuses a check whose API key was deactivated since.
var ErrCheckStopped = errors.New("the API key that the check was allowed for was deactivated since")

// countWithin bounds the count of what a stop of a key stopped.
const countWithin = time.Second

// keyStops are the last stops of keys, by key_id. Nil means that there are none.
type keyStops struct {
	at     map[string]int64
	last   int64
	unread time.Time // only checks that are younger are redeemed unread: no known stop stopped them
}

// with returns the stops after changes of keys, which are heard of at that time.
func (s *keyStops) with(keys []audit.Key, now time.Time) *keyStops {
	next := s
	for i := range keys {
		k := &keys[i]
		if k.Stopped == 0 || s != nil && k.Stopped <= s.at[k.ID.Text(spend.PrefixKey)] {
			continue
		}
		if next == s {
			next = &keyStops{at: make(map[string]int64), unread: now.Add(aheadBy)}
			if s != nil {
				maps.Copy(next.at, s.at)
				next.last = s.last
			}
		}
		next.at[k.ID.Text(spend.PrefixKey)], next.last = k.Stopped, max(next.last, k.Stopped)
	}
	return next
}

// stops reports whether a key was stopped since a check of it was judged.
func (s *keyStops) stops(keyID string, judged int64) bool { return s != nil && s.at[keyID] > judged }

// stopsCheck reports whether a check that nobody redeemed was stopped with its key.
func (v *view) stopsCheck(check *spend.Check) bool {
	return v.keyStops.stops(check.KeyID, check.Fence.Stops)
}

// mustRead reports whether a check may be stopped, so that it is not redeemed unread.
func (v *view) mustRead(id spend.ID) bool {
	return v.freezes != nil || v.keyStops != nil && !id.Time().After(v.keyStops.unread)
}

// Stopped counts what a stop of a key stopped; nil where it took too long.
type Stopped struct{ Checks, Voided *int64 }

// countStopped counts what the last stop of a key stopped. Nothing older is redeemed or replayed.
func (a *Authorizer) countStopped(ctx context.Context, k *audit.Key) (stopped Stopped) {
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n, err := a.store.CountStopped(ctx, k.ID.Text(spend.PrefixKey), k.Stopped, a.now().Add(-reachSince))
	if err == nil {
		stopped = Stopped{&n.Checks, &n.Voided}
	}
	return stopped
}

// inForce makes a stop that was recorded known to every node. What was in flight is answered, or refused, when it returns.
func (a *Authorizer) inForce(ctx context.Context, meanwhile func()) error {
	if err := a.guard.RaiseGeneration(ctx); err != nil {
		return err
	}
	var waits sync.WaitGroup
	waits.Go(func() { time.Sleep(answerWithin) })
	meanwhile()
	waits.Wait()
	return nil
}

// giveBackStopped gives back the checks that only a redemption carries out and whose keys were stopped.
func (a *Authorizer) giveBackStopped(ctx context.Context) error {
	if a.catalog.view().keys == nil { // nothing was asked of this node yet: it does not follow the configuration (see poll)
		if err := a.catalog.reload(ctx); err != nil {
			return err
		}
	}
	stops := a.catalog.view().keyStops
	a.stopsMu.Lock()
	defer a.stopsMu.Unlock()
	if stops == nil || stops.last <= a.stopsDone {
		return nil
	}
	var failed error
	for after, more := (spend.ID{}), true; more; {
		open, err := a.store.OpenAllows(ctx, after, lapsesAtOnce)
		if err != nil {
			return err
		}
		var due []spend.ID
		for _, o := range open {
			if after = o.Check; stops.stops(o.KeyID, o.Stops) {
				due = append(due, o.Check)
			}
		}
		if err := a.eachCheck(ctx, due, a.givingBack(spend.FlagStopped)); ctx.Err() != nil || errors.Is(err, ErrOverloaded) {
			return err
		} else if err != nil {
			failed = errors.Join(failed, err)
		}
		more = len(open) == lapsesAtOnce
	}
	if failed == nil {
		a.stopsDone = stops.last
	}
	return failed
}
