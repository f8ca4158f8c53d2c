package audit

import (
	"bytes"

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// lanes are the chains that a Writer goes on with, one per node incarnation.
// Only the goroutine that commits uses them.
//
// What is forgotten, or was never known, begins at 1 again. The store then
// refuses it, for that place of the lane is taken (ErrForked): so memory may
// fail, the chain does not.
type lanes struct {
	known   map[spend.ID]*lane
	entries []chain.Entry // of the batch under way, reused
}

// lane is one chain. Once it is over, no more batches of it are sent: it is
// not known where it ends, or the store takes none.
type lane struct {
	chain.Lane
	over bool
}

// maxLanes is far more than the incarnations that entries in the queue can
// have; a node makes a new one only when the outcome of a commit is unknown.
const maxLanes = 64

func (l *lanes) of(node spend.ID) *lane {
	if one, ok := l.known[node]; ok {
		return one
	}
	if l.known == nil {
		l.known = make(map[spend.ID]*lane)
	}
	if len(l.known) >= maxLanes {
		oldest := node
		for id := range l.known {
			if bytes.Compare(id[:], oldest[:]) < 0 {
				oldest = id
			}
		}
		delete(l.known, oldest)
	}
	one := &lane{Lane: chain.Lane{ID: node}}
	l.known[node] = one
	return one
}

// next makes the link of a batch, which is in the order of identifiers.
func (l *lanes) next(one *lane, batch []*Entry) chain.Link {
	l.entries = l.entries[:0]
	for _, e := range batch {
		l.entries = append(l.entries, chain.Entry{ID: e.check.ID, Row: e.row})
	}
	return one.Next(l.entries)
}
