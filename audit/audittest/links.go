package audittest

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// links numbers what Record makes: no two links have one place in a chain.
var links atomic.Int64

// Record commits checks with a link that no other has. Chains that are made so
// have gaps, for a test may commit for one node from many goroutines; chains as
// they should be are made by an audit.Writer.
func Record(ctx context.Context, s audit.Trail, checks ...*spend.Check) error {
	return s.Commit(ctx, checks, Link(links.Add(1), checks...))
}

// Link is that of the checks at a place of their node's chain, as if it were the
// first.
func Link(seq int64, checks ...*spend.Check) chain.Link {
	entries := make([]chain.Entry, len(checks))
	for i, c := range checks {
		entries[i] = chain.Entry{ID: c.ID, Row: chain.HashCheck(c, audit.RowFormat)}
	}
	slices.SortFunc(entries, func(a, b chain.Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	var builder chain.Builder
	if len(checks) > 0 {
		builder.Chain = checks[0].Fence.Node
	}
	link := builder.Next(entries)
	link.Seq = seq
	return link
}
