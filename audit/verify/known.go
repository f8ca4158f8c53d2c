package verify

import (
	"sort"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
)

// lateCommit is how much older than a checkpoint a check may be that the checkpoint does not
// include: commits take seconds, and clocks differ by seconds.
const lateCommit = time.Minute

// known is what the files of checkpoints say about all chains.
type known struct {
	files   []*history
	accepts []acceptance
	// disputes are the contradictions with the database, by the name of the chain.
	disputes map[string][]disputed
}

func newKnown() known { return known{disputes: make(map[string][]disputed)} }

// history is what one file says about the lengths of chains over time.
type history struct {
	last    time.Time // of the last line
	steps   map[spend.ID][]step
	changes []step
	state   map[spend.ID]chain.Head // at the last line
}

// step says that a line is the first with a batch number of at least seq.
type step struct {
	seq     int64
	lacking time.Time // of the previous line, which lacks it; zero without one
}

// add notes the next line of the file.
func (h *history) add(l checkpoint.Line) {
	grow := func(steps []step, seq int64) []step {
		if seq < 1 || len(steps) > 0 && steps[len(steps)-1].seq >= seq {
			return steps
		}
		return append(steps, step{seq, h.last})
	}
	for _, head := range l.Heads {
		chainID := spend.ID(head.Chain)
		h.steps[chainID] = grow(h.steps[chainID], head.Seq)
	}
	h.changes = grow(h.changes, l.Changes.Seq)
	h.last = l.Time
}

func (h *history) lacking(steps []step, seq int64) time.Time {
	if i := sort.Search(len(steps), func(i int) bool { return steps[i].seq >= seq }); i < len(steps) {
		return steps[i].lacking
	}
	return h.last
}

// lacking returns the time of the latest checkpoint that should have a batch and lacks it, zero
// without one, and the kind of finding for an older batch: Acknowledged if a later checkpoint
// accepted what was there.
func (k *known) lacking(seq int64, steps func(*history) []step, end func(*acceptance) int64) (latest time.Time, kind Kind) {
	for _, h := range k.files {
		if at := h.lacking(steps(h), seq); at.After(latest) {
			latest = at
		}
	}
	for i := range k.accepts {
		if a := &k.accepts[i]; a.at.After(latest) && end(a) >= seq {
			return latest, Acknowledged
		}
	}
	return latest, Inserted
}

func (k *known) lackingBatch(chainID spend.ID, seq int64) (time.Time, Kind) {
	return k.lacking(seq, func(h *history) []step { return h.steps[chainID] }, func(a *acceptance) int64 { return a.chains[chainID] })
}

func (k *known) lackingChange(seq int64) (time.Time, Kind) {
	return k.lacking(seq, func(h *history) []step { return h.changes }, func(a *acceptance) int64 { return a.changes })
}

// chains returns the last known length of each chain in any file.
func (k *known) chains() map[spend.ID]int64 {
	ends := make(map[spend.ID]int64)
	for _, h := range k.files {
		for chainID, head := range h.state {
			ends[chainID] = max(ends[chainID], head.Seq)
		}
	}
	return ends
}

// acceptance is a checkpoint that was deliberately signed over a contradiction.
type acceptance struct {
	at      time.Time
	reason  string
	lost    map[string]int64   // of chains that contradict earlier checkpoints, by name: up to which number they do not
	chains  map[spend.ID]int64 // where all chains ended
	changes int64
}

func accepted(l checkpoint.Line) acceptance {
	a := acceptance{l.Time, l.Acknowledged.Reason, make(map[string]int64), make(map[spend.ID]int64), l.Changes.Seq}
	for _, lost := range l.Acknowledged.Chains {
		name := chainName(spend.ID(lost.Chain))
		if a.lost[name] = 0; lost.Has < lost.Had { // its end is gone, and nothing else about it is known
			a.lost[name] = lost.Has
		}
	}
	if l.Acknowledged.Changes {
		a.lost[changesName] = 0
	}
	for _, head := range l.Heads {
		a.chains[spend.ID(head.Chain)] = head.Seq
	}
	return a
}

// changesName is the name of the chain of changes.
const changesName = "changes"

// disputed is a batch or change that contradicts checkpoints.
type disputed struct {
	at  time.Time // of the last of consecutive checkpoints that have it
	seq int64
	Finding
}

func (k *known) dispute(chain string, d disputed) {
	all := k.disputes[chain]
	if n := len(all); n > 0 && all[n-1].seq == d.seq && d.at.After(all[n-1].at) {
		all[n-1].at = d.at
		return
	}
	k.disputes[chain] = append(all, d)
}

// resolve returns the finding for each disputed chain, once: the first that nobody has acknowledged.
func (k *known) resolve() (all []Finding) {
	for chain, disputes := range k.disputes {
		found := disputes[0].Finding
		for _, d := range disputes {
			a := k.accepting(chain, d)
			if a == nil {
				found = d.Finding
				break
			}
			found.Kind, found.Detail = Acknowledged, disputes[0].Detail+"; acknowledged at "+stamp(a.at)+": "+a.reason
		}
		all = append(all, found)
	}
	return all
}

func (k *known) accepting(chain string, d disputed) *acceptance {
	for i, a := range k.accepts {
		if upTo, lost := a.lost[chain]; lost && d.seq > upTo && a.at.After(d.at) {
			return &k.accepts[i]
		}
	}
	return nil
}
