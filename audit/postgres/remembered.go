package postgres

import (
	"maps"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// remembered are the allowed checks that this node committed last, so that a redemption need not
// read them: a check never changes, and the commit of its redemption decides by what was recorded
// about it.
//
// A check that was handed out once is read from the database from then on: if something was
// recorded about it meanwhile, only a commit would find that, and would have to be made again for
// everything in it.
type remembered struct {
	mu     sync.Mutex
	wanted bool // this node redeems; otherwise nothing is kept
	checks map[spend.ID]*spend.Check
	order  []spend.ID // the oldest is at next
	next   int

	// given are the checks handed out in the last minutes, whose redemptions may be in progress;
	// earlier ones are in before. unsure are the checks that the server may lack by now, with the
	// time when that was found.
	given, before map[spend.ID]bool
	turned        time.Time // when given became before
	unsure        map[spend.ID]time.Time
}

const (
	maxRemembered = 8192
	// rememberedFor is the maximum age of a check; an older one may be archived.
	rememberedFor = time.Hour
	// givenFor is longer than a redemption takes.
	givenFor = time.Minute
	// rememberedBytes bounds those texts of a check that have no limit of their own.
	rememberedBytes = 4096
)

func (r *remembered) add(checks []*spend.Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range checks {
		if !r.wanted || c.Decision.Effect != spend.Allow || len(c.Action.Metadata.JSON)+len(c.Action.ReasonText) > rememberedBytes {
			continue
		}
		if r.checks == nil {
			r.checks, r.order = make(map[spend.ID]*spend.Check, maxRemembered), make([]spend.ID, maxRemembered)
		}
		delete(r.checks, r.order[r.next])
		r.order[r.next], r.checks[c.ID] = c.ID, c
		r.next = (r.next + 1) % maxRemembered
	}
}

// has reports whether a check would be handed out.
func (r *remembered) has(id spend.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
	c := r.checks[id]
	return c != nil && time.Since(c.Timestamp()) < rememberedFor
}

// take hands out the remembered checks, and returns the IDs of the others.
func (r *remembered) take(ids []spend.ID) (found []*spend.Check, others []spend.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
	if time.Since(r.turned) > givenFor {
		r.given, r.before, r.turned = make(map[spend.ID]bool), r.given, time.Now()
	}
	for _, id := range ids {
		if c := r.checks[id]; c != nil && time.Since(c.Timestamp()) < rememberedFor {
			found = append(found, c)
			r.given[id] = true
		} else {
			others = append(others, id)
		}
		delete(r.checks, id)
	}
	return found, others
}

// remove forgets the checks of recorded outcomes.
func (r *remembered) remove(outcomes []*spend.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range outcomes {
		delete(r.checks, o.CheckID)
		delete(r.given, o.CheckID)
		delete(r.before, o.CheckID)
	}
}

// forget forgets all checks, since the server may lack them, and marks those that were handed out
// as unsure. Each connection calls it in its first commit.
func (r *remembered) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.checks)
	now := time.Now()
	maps.DeleteFunc(r.unsure, func(_ spend.ID, since time.Time) bool { return now.Sub(since) > 2*givenFor })
	if r.unsure == nil {
		r.unsure = make(map[spend.ID]time.Time, len(r.given)+len(r.before))
	}
	for _, handedOut := range []map[spend.ID]bool{r.before, r.given} {
		for id := range handedOut {
			r.unsure[id] = now
		}
	}
	r.given, r.before, r.turned = nil, nil, time.Time{}
}

// refuse refuses, once, the redemptions of a commit whose checks were handed out before forget: the
// caller then reads the checks from this server. It returns nil if there are none.
func (r *remembered) refuse(outcomes []*spend.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unsure) == 0 {
		return nil
	}
	refused := new(audit.ReportedError)
	for _, o := range outcomes {
		if _, unsure := r.unsure[o.CheckID]; unsure && o.Status == spend.Redeemed {
			refused.CheckIDs = append(refused.CheckIDs, o.CheckID)
			delete(r.unsure, o.CheckID)
		}
	}
	if refused.CheckIDs == nil {
		return nil
	}
	return refused
}
