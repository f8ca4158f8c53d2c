package backtest

import (
	"time"

	"spendgate/audit/spend"
)

// The two states that are replayed.
const (
	recorded  = iota // what history had
	candidate        // what the candidate would have had
	sides
)

// fingerprint is the beginning of a spend.Hash: enough to tell actions apart.
type fingerprint [16]byte

// pass is a fingerprint that a check left on at least one side.
type pass struct {
	id      spend.ID
	claimed int64 // Unix milliseconds
	held    [sides]held
	older   *pass
}

// held is a pass as one side has it.
type held struct {
	until    int64 // 0: the check left none here
	effect   spend.Effect
	released bool
	expires  int64 // when what it asks of people expires, and it holds nothing any more (S60); 0: never
}

// passes are the fingerprints in force, of each the latest pass first.
type passes struct {
	latest map[fingerprint]*pass
	count  int
}

// repeats reports whether a check repeats a pass of the side: the latest that is in force
// and was decided as upTo or better decides (S17). Windows go by when it claimed, and
// approvals by the clocks of stores, which that of its node is nearer to.
func (p *passes) repeats(c *spend.Check, side int, window time.Duration, upTo spend.Effect) bool {
	now, made := claimed(c), c.Timestamp().UnixMilli()
	for at := p.latest[fingerprint(c.Fingerprint[:])]; at != nil; at = at.older {
		h := &at.held[side]
		if h.until > now && !h.released && (h.expires == 0 || made < h.expires) && h.effect <= upTo {
			return now-at.claimed < window.Milliseconds()
		}
	}
	return false
}

// add adds the latest pass of a fingerprint, and forgets those that are over.
func (p *passes) add(f fingerprint, added *pass, now int64) {
	added.older = p.latest[f]
	p.latest[f] = added
	p.count++
	p.prune(added, now)
}

// prune forgets what is over behind a pass.
func (p *passes) prune(from *pass, now int64) {
	for link := &from.older; *link != nil; {
		if at := *link; at.over(now) {
			*link = at.older
			p.count--
		} else {
			link = &at.older
		}
	}
}

func (at *pass) over(now int64) bool {
	return max(at.held[recorded].until, at.held[candidate].until) <= now
}

// sweep forgets all that is over.
func (p *passes) sweep(now int64) {
	for f, at := range p.latest {
		p.prune(at, now)
		if !at.over(now) {
			continue
		}
		p.count--
		if at.older == nil {
			delete(p.latest, f)
		} else {
			p.latest[f] = at.older
		}
	}
}

// release frees the pass of a check on one side, or takes that back.
func (p *passes) release(f fingerprint, id spend.ID, side int, released bool) {
	for at := p.latest[f]; at != nil; at = at.older {
		if at.id == id {
			at.held[side].released = released
		}
	}
}
