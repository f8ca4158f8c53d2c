package backtest

import (
	"encoding/binary"
	"math"
	"time"

	"spendgate/audit/spend"
)

// The two states that are replayed.
const (
	recorded  = iota // the state that history had
	candidate        // the state that the candidate would have had
	sides
)

// fingerprint is the beginning of a spend.Hash: enough to distinguish actions.
type fingerprint [16]byte

// held is a pass as one side has it, in Unix milliseconds.
type held struct {
	until   int64 // 0: the check left no fingerprint on this side
	effect  spend.Effect
	expires int64 // when the approval that it asks for expires, and the fingerprint becomes free (S60); 0: never
}

// pass is a fingerprint that a check left on at least one side. There may be millions, so
// it has no pointers, which the collector would follow, and times count from claimed.
type pass struct {
	claimed     int64  // Unix milliseconds
	check       uint64 // the random half of its ID: identical actions are few
	payment     uint64 // that the check is of; 0: none
	fingerprint fingerprint
	until       [sides]uint32
	expires     [sides]uint32
	older       uint32 // index of the older one; 0: none
	effect      [sides]spend.Effect
}

// released is the effect of a pass that was given back: no check repeats it.
const released = spend.Effect(1 << 7)

// passBytes is a pass, and its share of the heads.
const passBytes = 64 + 8

// passes are the fingerprints in force: lists of passes whose hashes are alike, the latest first.
type passes struct {
	heads  []uint32 // places
	slabs  [][]pass // a place is one of a slab, counted from 1
	unused uint32   // the places that were given back, as a list
	made   uint32
	count  int
}

const (
	slabSize = 1 << 12
	minHeads = 1 << 10 // a power of 2, as each number of heads
)

func (p *passes) at(place uint32) *pass { return &p.slabs[(place-1)/slabSize][(place-1)%slabSize] }

func (p *passes) head(f *fingerprint) *uint32 {
	return &p.heads[binary.LittleEndian.Uint64(f[:])&uint64(len(p.heads)-1)]
}

// after encodes a time as a pass stores it: later than claimed. A time beyond the range of the
// encoding ends after any window.
func after(claimed, at int64) uint32 {
	if at == 0 {
		return 0
	}
	return uint32(min(max(at-claimed, 1), math.MaxUint32)) //nolint:gosec // it fits
}

// paymentOf returns as much of the name of the check's payment as tells it from others; 0 without one.
func paymentOf(c *spend.Check) uint64 {
	hash := c.PaymentHash()
	return binary.BigEndian.Uint64(hash[:8])
}

func half(id spend.ID) uint64 { return binary.BigEndian.Uint64(id[8:]) }

// repeats reports whether a check repeats a pass of the side: the latest that is in force
// and was decided as upTo or better decides (S17). Windows go by when it claimed, and
// approvals by the clocks of stores, to which the clock of its node is nearer. It is no duplicate of a check of its own payment (S84).
func (p *passes) repeats(c *spend.Check, side int, window time.Duration, upTo spend.Effect) bool {
	if p.count == 0 {
		return false
	}
	now, made, f, own := claimed(c), c.Timestamp().UnixMilli(), fingerprint(c.Fingerprint[:]), paymentOf(c)
	for place := *p.head(&f); place != 0; {
		at := p.at(place)
		inForce := at.claimed+int64(at.until[side]) > now && (at.expires[side] == 0 || made < at.claimed+int64(at.expires[side]))
		if at.until[side] != 0 && inForce && at.fingerprint == f && at.effect[side] < released {
			if at.effect[side] <= upTo && (own == 0 || at.payment != own) {
				return now-at.claimed < window.Milliseconds()
			}
		}
		place = at.older
	}
	return false
}

// add adds the latest pass of a fingerprint, and forgets those beside it that are over.
func (p *passes) add(c *spend.Check, by [sides]held) {
	if p.count >= len(p.heads) {
		p.grow()
	}
	place := p.unused
	if place != 0 {
		p.unused = p.at(place).older
	} else {
		if p.made%slabSize == 0 {
			p.slabs = append(p.slabs, make([]pass, slabSize))
		}
		p.made++
		place = p.made
	}
	p.count++
	f := fingerprint(c.Fingerprint[:])
	head := p.head(&f)
	added := pass{claimed: claimed(c), check: half(c.ID), payment: paymentOf(c), fingerprint: f, older: *head}
	for side, h := range by {
		added.until[side], added.expires[side], added.effect[side] = after(added.claimed, h.until), after(added.claimed, h.expires), h.effect
	}
	*p.at(place), *head = added, place
	p.prune(&p.at(place).older, c.Timestamp().UnixMilli())
}

// grow doubles the heads.
func (p *passes) grow() {
	before := p.heads
	p.heads = make([]uint32, max(2*len(before), minHeads))
	for _, place := range before {
		var reversed uint32
		for place != 0 {
			at := p.at(place)
			place, at.older, reversed = at.older, reversed, place
		}
		for reversed != 0 { // the latest comes last, and is first then
			at := p.at(reversed)
			head := p.head(&at.fingerprint)
			reversed, at.older, *head = at.older, *head, reversed
		}
	}
}

// prune forgets ended passes from a link on.
func (p *passes) prune(link *uint32, now int64) {
	for *link != 0 {
		place := *link
		at := p.at(place)
		if at.claimed+int64(max(at.until[recorded], at.until[candidate])) > now {
			link = &at.older
			continue
		}
		*link, at.older, p.unused = at.older, p.unused, place
		p.count--
	}
}

// sweep forgets all that is over.
func (p *passes) sweep(now int64) {
	for i := range p.heads {
		p.prune(&p.heads[i], now)
	}
}

// release frees the pass of a check on one side, or takes that back.
func (p *passes) release(f fingerprint, id spend.ID, side int, free bool) {
	if p.count == 0 {
		return
	}
	for place := *p.head(&f); place != 0; place = p.at(place).older {
		if at := p.at(place); at.fingerprint == f && at.check == half(id) {
			if at.effect[side] &^= released; free {
				at.effect[side] |= released
			}
		}
	}
}
