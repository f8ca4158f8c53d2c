package audittest

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// links numbers the links of Record, so that no two share a place in a chain.
var links atomic.Int64

// Record commits checks with a unique link. The resulting chains have gaps, because a test may
// commit for one node from many goroutines; a commit.Writer makes chains without gaps.
func Record(ctx context.Context, s audit.Trail, checks ...*spend.Check) error {
	return s.Commit(ctx, checks, nil, Link(links.Add(1), checks...))
}

// RecordAll is Record of checks and outcomes in one commit.
func RecordAll(ctx context.Context, s audit.Trail, checks []*spend.Check, outcomes ...*spend.Outcome) error {
	entries := entriesOf(checks)
	for _, o := range outcomes {
		entries = append(entries, chain.Entry{ID: o.ID, Row: chain.HashOutcome(o)})
	}
	fence := outcomes[0].Fence
	return s.Commit(ctx, checks, outcomes, linkOf(fence.Node, links.Add(1), entries))
}

// Link returns the link of the checks at a place of their node's chain, as if it were the
// first.
func Link(seq int64, checks ...*spend.Check) chain.Link {
	var node spend.ID
	if len(checks) > 0 {
		node = checks[0].Fence.Node
	}
	return linkOf(node, seq, entriesOf(checks))
}

func entriesOf(checks []*spend.Check) []chain.Entry {
	entries := make([]chain.Entry, len(checks))
	for i, c := range checks {
		entries[i] = chain.Entry{ID: c.ID, Row: chain.HashCheck(c)}
	}
	return entries
}

func linkOf(node spend.ID, seq int64, entries []chain.Entry) chain.Link {
	slices.SortFunc(entries, func(a, b chain.Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	builder := chain.Builder{Chain: node}
	link := builder.Next(entries)
	link.Seq = seq
	return link
}
