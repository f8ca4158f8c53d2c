package hotpath

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/spend"
)

// Why a report is refused.
var (
	ErrNotAllowed      = errors.New("only an allowed check has an outcome")
	ErrAlreadyReported = errors.New("another outcome is reported")
)

// Report is what a caller says of an allowed check.
type Report struct {
	Status    spend.Status
	Amount    *spend.Amount // that was moved; nil is the check's. Of an executed one only
	Reference string
	Note      string
}

// Report records what became of a check, which the caller may see, or finds the
// report that says the same. The request has the caller's access. It fails with
// ErrNotAllowed, ErrAlreadyReported, ErrOverloaded, or ErrUnavailable: then it may
// be recorded all the same, and the same report tells.
func (a *Authorizer) Report(ctx context.Context, r Request, check *spend.Check, report Report) (o *spend.Outcome, replayed bool, err error) {
	if check.Decision.Effect != spend.Allow {
		return nil, false, ErrNotAllowed
	}
	if _, ok := a.writer.Reserve(); !ok {
		return nil, false, ErrOverloaded
	}
	reporting := reporting{a: a, deadline: r.Started.Add(blindFor)}
	defer func() {
		if !reporting.handedOver {
			a.writer.Free()
		}
	}()
	for range maxReclaims {
		known, err := a.store.Outcomes(ctx, []spend.ID{check.ID})
		if err != nil {
			return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		o, replayed, err := r.next(known, check, report)
		if err != nil || replayed {
			return o, replayed, err
		}
		again, err := reporting.record(ctx, o)
		if err != nil {
			return nil, false, err
		}
		if !again {
			a.metrics.outcomes.WithLabelValues(string(o.Status), string(o.Release)).Inc()
			return o, false, nil
		}
	}
	return nil, false, fmt.Errorf("%w: a report was overtaken too often", ErrUnavailable)
}

// next returns the outcome to be recorded beside those that are known, or the one
// that says the same already (S39, S40).
func (r *Request) next(known []*spend.Outcome, check *spend.Check, report Report) (o *spend.Outcome, replayed bool, err error) {
	asker := r.Access.key
	mayRelease := asker.scopes.Has(spend.OutcomesRelease)
	o = &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: check.ID, Number: len(known) + 1, Status: report.Status,
		Reference: report.Reference, Note: report.Note,
		KeyID: asker.name, Principal: asker.Grants.Principal, RequestID: r.ID, Check: check,
	}
	switch {
	case report.Amount != nil:
		o.Amount = *report.Amount
	case o.Status == spend.Executed:
		o.Amount = check.Action.Amount
	}
	o.SetRelease(mayRelease)
	if len(known) == 0 {
		return o, false, nil
	}
	last := known[len(known)-1]
	switch {
	case last.Pending() && mayRelease:
		return o, false, nil
	case last.Same(o):
		return last, true, nil
	case !mayRelease && known[0].Same(o): // its own, before a releasing key reported
		return known[0], true, nil
	}
	return nil, false, ErrAlreadyReported
}

// reporting is one report on its way.
type reporting struct {
	a          *Authorizer
	deadline   time.Time
	handedOver bool // the slot is freed when the commit's outcome is known
}

// record commits the outcome. again means that nothing was recorded, and that it is
// to be looked what is known by now.
func (r *reporting) record(ctx context.Context, o *spend.Outcome) (again bool, err error) {
	if o.Fence, err = r.a.guard.CurrentFence(ctx); err != nil {
		return false, err
	}
	entry := r.a.writer.AppendOutcome(o)
	err = entry.Wait(r.deadline)
	switch {
	case err == nil, errors.Is(err, audit.ErrReported):
		return err != nil, nil
	case errors.Is(err, audit.ErrStaleEpoch), errors.Is(err, audit.ErrFencedNode):
		if r.a.now().After(r.deadline) {
			return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return true, r.a.guard.RenewFence(ctx, o.Fence, errors.Is(err, audit.ErrStaleEpoch))
	case errors.Is(err, audit.ErrPending):
		r.handedOver = true
		r.a.unresolved.Go(func() {
			defer r.a.writer.Free()
			_ = entry.Final() // there is nobody to tell any more
		})
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, audit.ErrUnavailable):
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return false, err
}

// newReported returns what looks up the last outcomes of checks, for many
// replays at once.
func newReported(store audit.Trail) *guard.Lookup[spend.ID, *spend.Outcome] {
	return guard.NewLookup(func(ctx context.Context, ids []spend.ID) (map[spend.ID]*spend.Outcome, error) {
		return audit.LastOutcomes(ctx, store, ids)
	})
}

// replay answers with a recorded check, and with what became of it (S57).
func (a *Authorizer) replay(ctx context.Context, check *spend.Check) (Answer, error) {
	a.metrics.replays.Inc()
	answer := Answer{Check: check, Replayed: true}
	if check.Decision.Effect != spend.Allow {
		return answer, nil
	}
	o, _, err := a.reported.Get(ctx, check.ID)
	answer.Outcome = o
	return answer, err
}
