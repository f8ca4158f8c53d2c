package hotpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
)

// ErrNotAllowed refuses the report of a check that was not allowed.
var ErrNotAllowed = errors.New("only an allowed check has an outcome")

// AlreadyReportedError refuses a report beside the last one, which it does not correct.
type AlreadyReportedError struct{ Last *spend.Outcome } // nil if there is nothing to correct

func (e *AlreadyReportedError) Error() string {
	switch {
	case e.Last == nil:
		return "nothing is reported of this check yet: leave supersedes out"
	case e.Last.Number == spend.MaxReports:
		return fmt.Sprintf("this check has %d reports, which is the most", spend.MaxReports)
	}
	return fmt.Sprintf("report %d is the last of this check, and says %s; a key with outcomes:release corrects it with \"supersedes\": %d,"+
		" but whoever asked for the check gives nothing back", e.Last.Number, e.Last.Status, e.Last.Number)
}

// Report is a caller's report about an allowed check, or about one that was escalated and approved
// elsewhere.
type Report struct {
	Status     spend.Status
	Amount     *spend.Amount // the amount moved; nil is the check's. Only for an executed action
	Reference  string
	Note       string
	Supersedes int // the number of the report that this one corrects; 0 corrects none
	// RedemptionID names the redemption, or the take-over, whose holder reports; zero names none (S84).
	RedemptionID spend.ID
	// UnlessInDoubt refuses the report if the check is in doubt: somebody may carry the action out
	// again.
	UnlessInDoubt bool
}

// Report records the outcome of a check, which the caller may see, or finds the report that says the
// same. The request has the caller's access. It fails with ErrNotAllowed, an AlreadyReportedError,
// ErrOverloaded, or ErrUnavailable: then the report may have been recorded, and sending it again
// shows that.
func (a *Authorizer) Report(
	ctx context.Context, r Request, check *spend.Check, report Report,
) (o *spend.Outcome, replayed bool, err error) {
	if !check.TakesOutcome() {
		return nil, false, ErrNotAllowed
	}
	return a.take(ctx, r, check, false, func(course *spend.Course, _ error) (*spend.Outcome, bool, error) {
		return a.next(ctx, r, course, check, report)
	})
}

// take records the next step of a check's outcomes, which next makes from the steps so far, or finds
// that it is recorded already: replayed. An untouched check had no step a moment ago. Of two
// concurrent steps the store accepts one, and the other reads the steps again, with the step that was
// refused.
func (a *Authorizer) take(ctx context.Context, r Request, check *spend.Check, untouched bool,
	next func(course *spend.Course, refused error) (o *spend.Outcome, replayed bool, err error),
) (o *spend.Outcome, replayed bool, err error) {
	if _, ok := a.writer.Reserve(); !ok {
		return nil, false, ErrOverloaded
	}
	reporting := reporting{a: a, deadline: r.Started.Add(blindFor), access: r.Access, own: r.ownPayment()}
	defer func() {
		if !reporting.handedOver {
			a.writer.Free()
		}
	}()
	for range maxReclaims {
		var steps []*spend.Outcome
		if !untouched {
			if steps, err = a.store.Outcomes(ctx, []spend.ID{check.ID}); err != nil {
				return nil, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		}
		assumed := untouched
		untouched = false
		course := spend.CourseOf(steps)
		reporting.redeemed = course.Redeemed
		o, replayed, err := next(&course, reporting.refused)
		if assumed && err != nil {
			continue // the reason of a refusal must come from the present record
		}
		if err != nil || replayed {
			return o, replayed, err
		}
		switch err := reporting.record(ctx, o); {
		case err == nil:
			a.metrics.outcomes.WithLabelValues(string(o.Status), string(o.Release)).Inc()
			if slices.Contains(o.Payment.Flags, spend.FlagPaidTwice) {
				a.metrics.paidTwice.Inc()
			}
			return o, false, nil
		case !errors.Is(err, errOvertaken):
			return nil, false, err
		}
	}
	return nil, false, fmt.Errorf("%w: a report was overtaken too often", ErrUnavailable)
}

// next returns the outcome to be recorded after the known ones, or the report that says the same
// already (S39, S61).
func (a *Authorizer) next(
	ctx context.Context, r Request, course *spend.Course, check *spend.Check, report Report,
) (o *spend.Outcome, replayed bool, err error) {
	o = r.outcome(check, report)
	o.Step, o.Number, o.Follows = course.Next(), len(course.Reports)+1, course.Last()
	o.SetRelease(r.Access.mayRelease())
	if err := ofRedemption(course, o, report.RedemptionID); err != nil {
		return nil, false, err
	}
	if err := a.mayReport(ctx, r, course, check, o, report.RedemptionID); err != nil {
		return nil, false, err
	}
	if report.UnlessInDoubt && course.Doubt != nil && course.Reports == nil {
		return nil, false, &AlreadyRedeemedError{By: course.Holder(), InDoubt: true}
	}
	last, corrects := o.Follows, report.Supersedes
	if check.Decision.Effect != spend.Allow && (!o.MayRelease || last == nil && o.Status != spend.Executed) {
		return nil, false, ErrNotAllowed
	}
	if last == nil && corrects == 0 {
		return o, false, nil
	}
	if last == nil {
		return nil, false, &AlreadyReportedError{}
	}
	if corrects == 0 && o.Status == spend.Executed && last.Status != spend.Executed && last.Number < spend.MaxReports &&
		o.MayRelease && former(r.Access, course, report.RedemptionID) {
		return o, false, nil // the truth about the execution_id that both have
	}
	follows := o.MayRelease && !last.MayRelease && (corrects == 0 || corrects == last.Number)
	repeats := last.Same(o) && (corrects == 0 || corrects == last.Number || corrects == last.Number-1)
	switch {
	case repeats && (!follows || last.Release == o.Release && last.Excess == o.Excess):
		return last, true, nil
	case !o.MayRelease && corrects == 0 && course.Reports[0].Same(o): // its own, before a releasing key reported
		return course.Reports[0], true, nil
	case follows, o.MayRelease && corrects == last.Number && last.Number < spend.MaxReports:
		return o, false, nil
	}
	return nil, false, &AlreadyReportedError{last}
}

// mayReport refuses the report of a redeemed check by anybody but the redeemer, until the check is in
// doubt or was reported on: then whoever may release and did not ask may report (S74). It withholds
// the right to give back from whoever asked (S61), and refuses reports that a policy accepts only for
// a redeemed check.
//
// Of a payment, what nobody redeemed is reported by who asked, which gives it back, and by who gives back and did not ask (S84).
func (a *Authorizer) mayReport(
	ctx context.Context, r Request, course *spend.Course, check *spend.Check, o *spend.Outcome, redemption spend.ID,
) error {
	by := course.Holder()
	if by == nil && check.Payment != nil && (o.Number == 1 || o.Status == spend.Executed) {
		return a.mayReportUnredeemed(ctx, r, check, o)
	}
	if course.Taken != nil && redemption.IsZero() {
		if asked, err := a.askedFor(ctx, r.Access, check); err != nil || asked {
			return cmp.Or(err, ErrCheckTakenOver)
		}
	}
	others := by != nil && !r.Access.redeemed(by)
	if others && former(r.Access, course, redemption) && o.Status == spend.Executed {
		return nil // with one execution_id the money moved once
	}
	if last := course.Last(); course.Taken != nil && last != nil && last.Status == spend.Executed && o.GivesBack() {
		// Whoever says that it was executed, the former redeemer too, is corrected by somebody who did not ask (S84).
		if asked, err := a.askedFor(ctx, r.Access, check); err != nil || asked {
			return cmp.Or[error](err, &AlreadyReportedError{last})
		}
	}
	gives := o.MayRelease && o.GivesBack() && (by == nil || by.KeyID != r.Access.keyID())
	asked := false
	if o.MayRelease && (others || gives) {
		var err error
		if asked, err = a.askedFor(ctx, r.Access, check); err != nil {
			return err
		}
	}
	if others && (asked || !o.MayRelease || course.Doubt == nil && course.Reports == nil) {
		return &AlreadyRedeemedError{By: by, Last: course.Last(), Report: true}
	}
	if gives {
		o.SetRelease(!asked)
	}
	if by != nil || o.Status != spend.Executed {
		return nil
	}
	terms, err := a.redeemTerms(ctx, check)
	if err == nil && terms.Required {
		err = ErrCheckNotRedeemed
	}
	return err
}

// mayReportUnredeemed is mayReport of the first report, and of a later executed, of a payment's check that nobody redeemed.
func (a *Authorizer) mayReportUnredeemed(ctx context.Context, r Request, check *spend.Check, o *spend.Outcome) error {
	if o.Status != spend.Executed && spend.SameName(r.Access.principal(), check.PrincipalName()) {
		o.SetRelease(true)
		return nil
	}
	asked := true
	if o.MayRelease {
		var err error
		if asked, err = a.askedFor(ctx, r.Access, check); err != nil {
			return err
		}
	}
	if asked { // a report that gives nothing back would keep the payment from lapsing
		return ErrCheckNotRedeemed
	}
	if o.Status != spend.Executed {
		o.SetRelease(true)
		return nil
	}
	o.Payment.Flags = append(o.Payment.Flags, spend.FlagUnredeemed)
	return nil
}

// ofRedemption refuses a report that names an unknown redemption, and one by who held the check before it was taken over,
// unless it says that the action was executed (S84).
func ofRedemption(course *spend.Course, o *spend.Outcome, id spend.ID) error {
	switch {
	case id.IsZero(), course.Holder() != nil && course.Holder().ID == id:
		return nil
	case !course.Held(id):
		return ErrUnknownRedemption
	case o.Status == spend.Executed:
		return nil
	}
	return ErrCheckTakenOver
}

// former reports whether the caller redeemed the check under that redemption, before it was taken over.
func former(access Access, course *spend.Course, id spend.ID) bool {
	by := course.HeldBy(id)
	return by != nil && by != course.Holder() && access.redeemed(by)
}

// outcome returns the outcome that the report describes.
func (r *Request) outcome(check *spend.Check, report Report) *spend.Outcome {
	reporter := r.Access.key
	o := &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: check.ID, Status: report.Status, Reference: report.Reference, Note: report.Note,
		KeyID: reporter.name, Principal: reporter.Grants.Principal, RequestID: r.ID, Check: check,
	}
	switch {
	case report.Amount != nil:
		o.Amount = *report.Amount
	case o.Status == spend.Executed:
		o.Amount = check.Action.Amount
	}
	return o
}

// askedFor reports whether the caller asked for the check: by API key, principal or owner, as recorded
// with the check or as they are now (S61, S62).
func (a *Authorizer) askedFor(ctx context.Context, access Access, check *spend.Check) (bool, error) {
	caller := access.key.party()
	if caller.Shares(audit.Asker(check)) {
		return true, nil
	}
	now, err := a.store.Parties(ctx, []string{caller.KeyID, check.KeyID})
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	reporter, asker := now[caller.KeyID], now[check.KeyID] // the store's word is newer than this node's
	return reporter.Shares(audit.Asker(check)) || reporter.Shares(asker) || caller.Shares(asker), nil
}

// reporting is one report on its way.
type reporting struct {
	a          *Authorizer
	deadline   time.Time
	access     Access         // of the caller
	refused    error          // by the store, the last time: commit.ErrReported, commit.ErrLate or commit.ErrPaymentMoved
	redeemed   *spend.Outcome // the redemption of the check before the step; nil without one
	own        ofPayment      // under which an executor redeems the check; zero for none
	judged     *spend.Payment // by which the step was made; nil of a report
	byNonce    bool           // the step is a redemption, or a take-over, by the nonce of a payment
	handedOver bool           // the place is given back when the commit's outcome is known
}

// record commits the outcome. After errOvertaken nothing was recorded, and the steps have to be read
// again. If a check that was given back counts again, its fingerprint is claimed first.
func (r *reporting) record(ctx context.Context, o *spend.Outcome) (err error) {
	at, held := &guard.Attempt{Deadline: r.deadline}, false
	if o.Restores() {
		if held, err = r.a.guard.ClaimFor(ctx, at, o.Check); err != nil {
			return err
		}
		o.Fence = at.Fence()
	}
	if !held {
		if o.Fence, err = r.a.guard.CurrentFence(ctx); err != nil {
			return err
		}
	}
	view := r.a.catalog.view()
	o.Fence.Stops = view.stops
	if o.Status == spend.Redeemed && (o.Unread && view.mustRead(o.CheckID) || !o.Unread && view.stopsCheck(o.Check)) {
		return errOvertaken
	}
	if o.Status == spend.Redeemed || o.Status == spend.TakenOver {
		if o.Unread && view.freezes != nil { // who asked for the check decides, too
			return errOvertaken
		}
		if f := r.a.frozenCheck(view, r.access, o.Check, o.ID.Time()); f != nil {
			return f.err(nil)
		}
	}
	with, err := r.payStep(ctx, o)
	if err != nil {
		r.settle(at, held, err)
		return err
	}
	entry := r.a.writer.AppendOutcome(o, with...)
	err = entry.Wait(r.deadline)
	if errors.Is(err, commit.ErrPending) {
		r.handedOver = true
		r.a.unresolved.Go(func() {
			defer r.a.writer.Free()
			r.settle(at, held, entry.Final()) // there is nobody to tell any more
		})
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.settle(at, held, err)
	switch {
	case errors.Is(err, commit.ErrReported), errors.Is(err, commit.ErrLate), errors.Is(err, commit.ErrPaymentMoved):
		r.refused = err
		return errOvertaken
	case errors.Is(err, audit.ErrStaleStops):
		if r.a.now().After(r.deadline) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return cmp.Or(r.a.catalog.reload(ctx), errOvertaken)
	case errors.Is(err, audit.ErrStaleEpoch), errors.Is(err, audit.ErrFencedNode):
		if r.a.now().After(r.deadline) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if err := r.a.guard.RenewFence(ctx, o.Fence, errors.Is(err, audit.ErrStaleEpoch)); err != nil {
			return err
		}
		return errOvertaken
	case errors.Is(err, audit.ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// settle ends the claim of a report whose commit returned err. While the outcome of the commit is
// unknown, the claim stays: a check that meets it fences this node.
func (r *reporting) settle(at *guard.Attempt, held bool, err error) {
	switch {
	case !held || errors.Is(err, commit.ErrPending):
	case err == nil:
		r.a.guard.HandOver(at)
	default:
		r.a.guard.Release(at)
	}
}

// newBecame returns a Lookup of what became of checks, for many replays at once.
func newBecame(store Store) *guard.Lookup[spend.ID, spend.Course] {
	return guard.NewLookup(func(ctx context.Context, ids []spend.ID) (map[spend.ID]spend.Course, error) {
		return audit.Courses(ctx, store, ids)
	})
}

// replay answers with a recorded check and its outcome (S57).
func (a *Authorizer) replay(ctx context.Context, c *checking, check *spend.Check) (answer Answer, err error) {
	a.metrics.replays.Inc()
	answer = Answer{Check: check, Replayed: true}
	if check.TakesOutcome() {
		answer.Became, _, err = a.became.Get(ctx, check.ID)
	}
	if err == nil && check.Decision.Effect == spend.Allow {
		err = a.mayAnswer(ctx, c.request.Started, c.identity.access, check, answer.Became.Redeemed != nil)
	}
	return answer, err
}
