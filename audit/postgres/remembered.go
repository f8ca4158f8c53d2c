package postgres

import (
	"sync"
	"time"

	"spendgate/audit/spend"
)

// remembered are the allowed checks that this node committed last, so that who redeems one
// need not have it read: what is in a check never changes, and what became of it the commit
// of its redemption decides.
//
// Once handed out, a check is read from then on: what is recorded of it meanwhile would be
// found by a commit only, which has to be made again for all that are in it.
type remembered struct {
	mu     sync.Mutex
	wanted bool // somebody redeems at this node; nothing is kept for nobody
	given  bool // something was handed out since all was forgotten last
	checks map[spend.ID]*spend.Check
	order  []spend.ID // the oldest is at next
	next   int
}

const (
	maxRemembered = 8192
	// rememberedFor is how old a check may be; later it may be archived.
	rememberedFor = time.Hour
	// rememberedBytes bounds the texts of a check without a limit of their own.
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

// take hands out those of the checks that are there, and returns the others' IDs.
func (r *remembered) take(ids []spend.ID) (found []*spend.Check, others []spend.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
	for _, id := range ids {
		if c := r.checks[id]; c != nil && time.Since(c.Timestamp()) < rememberedFor {
			found = append(found, c)
			r.given = true
		} else {
			others = append(others, id)
		}
		delete(r.checks, id)
	}
	return found, others
}

// remove forgets what outcomes are recorded of.
func (r *remembered) remove(outcomes []*spend.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range outcomes {
		delete(r.checks, o.CheckID)
	}
}

// forget forgets all: the server may be one that lacks them. It reports whether one was
// handed out before.
func (r *remembered) forget() (given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	given = r.given
	r.given = false
	clear(r.checks)
	return given
}
