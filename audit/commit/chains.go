package commit

import (
	"slices"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// chains are the hash chains that a Writer extends, one per node incarnation. Only the goroutine that
// commits uses them.
//
// A chain that is forgotten, or was never known, begins at 1 again. The store then refuses the batch,
// because that place of the chain is taken (audit.ErrForked): losing this memory does not damage a
// chain.
type chains struct {
	known   map[spend.ID]*nodeChain
	entries []chain.Entry // of the batch in progress, reused
}

// nodeChain is the chain of one incarnation. Once it has ended, no more batches of it are sent: its
// last batch is not known, or the store refuses more.
type nodeChain struct {
	chain.Builder
	ended bool
}

// maxChains is far more than the incarnations that entries in the queue can
// have; a node makes a new one only when the outcome of a commit is unknown.
const maxChains = 64

func (c *chains) of(node spend.ID) *nodeChain {
	if one, ok := c.known[node]; ok {
		return one
	}
	if c.known == nil {
		c.known = make(map[spend.ID]*nodeChain)
	}
	if len(c.known) >= maxChains {
		oldest := node
		for id := range c.known {
			if id.Compare(oldest) < 0 {
				oldest = id
			}
		}
		delete(c.known, oldest)
	}
	one := &nodeChain{Builder: chain.Builder{Chain: node}}
	c.known[node] = one
	return one
}

// next returns the link of a batch, which is in the order of identifiers.
func (c *chains) next(one *nodeChain, batch []*Entry) chain.Link {
	c.entries = c.entries[:0]
	for _, e := range batch {
		c.entries = append(c.entries, chain.Entry{ID: e.id(), Row: e.row})
	}
	for _, e := range batch {
		for _, o := range e.with {
			c.entries = append(c.entries, chain.Entry{ID: o.ID, Row: chain.HashOutcome(o)})
		}
	}
	if len(c.entries) > len(batch) {
		slices.SortFunc(c.entries, func(a, b chain.Entry) int { return a.ID.Compare(b.ID) })
	}
	return one.Next(c.entries)
}
