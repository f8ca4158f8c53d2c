package guard

import (
	"context"
	"fmt"
	"time"

	"spendgate/audit/pause"
)

// wait looks again and again at a claim of another attempt.
type wait struct {
	g      *Guard
	at     *Attempt
	ctx    context.Context // bounded by maxWait
	name   string
	value  string
	holder holder // that the value names
	pause  time.Duration
}

func (g *Guard) newWait(ctx context.Context, at *Attempt, name, value string) (*wait, context.CancelFunc, error) {
	h, err := parseHolder(value)
	if err != nil {
		g.mend(err, at.request.reading.windows)
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	return &wait{g: g, at: at, ctx: ctx, name: name, value: value, holder: h}, cancel, nil
}

// claimState is the result of looking at a claim.
type claimState int

const (
	unchanged claimState = iota
	changed              // the name has another value, or is another
	stale                // without a record for too long, or abandoned
)

// look reads the claim, and pauses when it is unchanged.
func (w *wait) look() (claimState, error) {
	var r request
	if err := w.g.roundTrip(w.ctx, &r, func(r *request, _ marker) { r.Gets = []string{w.name} }); err != nil {
		return unchanged, err
	}
	switch value := r.Values[0]; {
	case r.reading.windows.epoch != w.at.fence.Epoch:
		return changed, nil // the name is another now
	case value == "" && w.at.late():
		return unchanged, errOthersFailed
	case value != w.value:
		return changed, nil
	}
	if w.holder.age(r.reading.now) > staleAfter || w.abandoned() {
		return stale, nil
	}
	if w.pause == 0 {
		w.g.metrics.waits.Inc()
	}
	w.pause = min(max(2*w.pause, pollFirst), pollMost)
	if pause.For(w.ctx, w.pause) != nil {
		return unchanged, fmt.Errorf("%w: waited too long for another check's claim", ErrUnavailable)
	}
	return unchanged, nil
}

// abandoned reports whether the claim is this process's own and not in flight: left by an attempt that
// ended, or by this very attempt.
func (w *wait) abandoned() bool {
	c := w.g.inFlight.find(w.holder.check)
	return w.g.fencing.isOwn(w.holder.node) && (c == nil || c.attempt == w.at)
}
