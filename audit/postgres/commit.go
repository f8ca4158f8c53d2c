package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"spendgate/hotpath/spend"
)

// Commit implements audit.Trail: one buffer, one wait.
func (s *Store) Commit(ctx context.Context, checks []*spend.Check) error {
	if len(checks) == 0 {
		return nil
	}
	for _, c := range checks {
		if err := encodable(c); err != nil {
			return err
		}
	}
	session, err := s.writers.take(ctx)
	if err != nil {
		return fmt.Errorf("cannot commit: %w", err)
	}
	defer s.writers.give(session)
	reach := horizon(checks)
	if reach <= s.horizonMS.Load() {
		reach = 0
	}
	var steps int
	session.buf, steps = appendCommit(session.buf[:0], checks, reach)
	if _, err := session.exchange(ctx, steps); err != nil {
		return fmt.Errorf("cannot commit: %w", err)
	}
	for known := s.horizonMS.Load(); reach > known && !s.horizonMS.CompareAndSwap(known, reach); {
		known = s.horizonMS.Load()
	}
	return nil
}

// horizon is how far beyond its identifier's millisecond a pass of the checks
// is live, in whole minutes, rounded up: so that the table horizon is raised
// for a longer window, not for every jitter between two clocks.
func horizon(checks []*spend.Check) int64 {
	const minute = 60_000
	var most int64
	for _, c := range checks {
		if c.Pass.Passed() {
			most = max(most, c.Pass.UntilMS-c.ID.Time().UnixMilli())
		}
	}
	return (most + minute - 1) / minute * minute
}

// appendCommit adds the whole conversation: the query and the rows that its
// COPYs will ask for. A server that refuses the query skips the rows.
func appendCommit(b []byte, checks []*spend.Check, reach int64) (_ []byte, steps int) {
	fence := checks[0].Fence
	b, at := openMessage(b, 'Q')
	b = append(b, begin...)
	b = append(b, "SELECT enter("...)
	b = append(appendHex(b, fence.Node[:]), ',')
	b = append(appendHex(b, fence.Epoch[:]), ");"...)
	steps = 3 // with BEGIN and the COPY of checks
	if slices.ContainsFunc(checks, hasKey) {
		b = appendTakeKeys(b, checks)
		steps++
	}
	if reach > 0 {
		b = append(appendInt(append(b, "SELECT reach("...), reach), ");"...)
		steps++
	}
	b = append(b, "COPY checks("+checkColumns+") FROM STDIN BINARY;"...)
	violations := slices.ContainsFunc(checks, (*spend.Check).Violation)
	if violations {
		b = append(b, "COPY violations("+violationColumns+") FROM STDIN BINARY;"...)
		steps++
	}
	b = append(b, commit...)
	b = closeMessage(append(b, 0), at)

	b, at = openCopy(b)
	for _, c := range checks {
		b = appendCheck(b, c)
	}
	b = closeCopy(b, at)
	if !violations {
		return b, steps
	}
	b, at = openCopy(b)
	for _, c := range checks {
		if c.Violation() {
			b = appendViolation(b, c)
		}
	}
	return closeCopy(b, at), steps
}

func hasKey(c *spend.Check) bool { return c.Action.IdempotencyKey != "" }

// appendTakeKeys adds the call with two array literals of hex.
func appendTakeKeys(b []byte, checks []*spend.Check) []byte {
	list := func(b []byte, value func([]byte, *spend.Check) []byte) []byte {
		b = append(b, "'{"...)
		for _, c := range checks {
			if hasKey(c) {
				b = append(value(b, c), ',')
			}
		}
		b[len(b)-1] = '}' // in place of the last comma
		return append(b, '\'')
	}
	b = append(b, "SELECT take_keys("...)
	b = list(b, func(b []byte, c *spend.Check) []byte {
		hash := spend.HashKey(c.Action.IdempotencyKey)
		return hex.AppendEncode(b, hash[:])
	})
	b = append(b, ',')
	b = list(b, func(b []byte, c *spend.Check) []byte { return c.ID.Append(b, "") })
	return append(b, ");"...)
}
