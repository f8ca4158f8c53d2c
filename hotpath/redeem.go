package hotpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
)

// Errors of redemptions, beside the error types below.
var (
	ErrCheckNotAllowed  = errors.New("only an allowed check is redeemed")
	ErrCheckNotRedeemed = errors.New("the check was not redeemed")
	// ErrCheckTakenOver refuses a report by whose redemption was taken over (S84).
	ErrCheckTakenOver = errors.New("the redemption of the check was taken over")
	// ErrOtherPayment refuses to redeem a check of one payment under another one of the same namespace.
	ErrOtherPayment = errors.New("the check is of another payment")
	// ErrUnknownRedemption refuses a report under a redemption that the check does not have.
	ErrUnknownRedemption = errors.New("the check has no such redemption")
)

// AlreadyRedeemedError refuses a request that only the redeemer of the check may make, or that
// succeeds only once.
type AlreadyRedeemedError struct {
	By      *spend.Outcome // the redemption
	Last    *spend.Outcome // the last report; nil before there is one
	InDoubt bool           // that is why
	Report  bool           // a report is refused
}

func (e *AlreadyRedeemedError) Error() string {
	text := fmt.Sprintf("the check was redeemed at %s by %s (%s)", e.By.ID.Time().Format(time.RFC3339), e.By.Reporter(), e.By.KeyID)
	if e.Last != nil {
		text += ", and reported as " + string(e.Last.Status)
	}
	if e.InDoubt {
		text += ", and is in doubt"
	}
	if e.Report {
		text += "; only the redeemer reports its outcome, and once it is in doubt or reported " +
			"also a key with outcomes:release whose principal did not ask"
	}
	return text
}

// CheckReleasedError refuses the redemption of a check about which something was reported.
type CheckReleasedError struct {
	Last      *spend.Outcome // the last report
	OfPayment bool
}

func (e *CheckReleasedError) Error() string {
	text := "the check was reported as " + string(e.Last.Status) + ", so it cannot be redeemed: "
	switch {
	case e.Last.Status == spend.Executed:
		return text + "its action counts as carried out; do not carry it out or check it again before somebody has looked into that report"
	case e.Last.Release == spend.ReleasePending:
		return text + "a key with outcomes:release must report, too, or the action stays a duplicate until its window ends; " +
			"then " + again(e.OfPayment)
	}
	return text + again(e.OfPayment) + ", and redeem the new check"
}

// again says how to ask again for an action that was not carried out.
func again(ofPayment bool) string {
	if ofPayment {
		return "ask again under the same payment_key"
	}
	return "check the action again, under another idempotency_key"
}

// CheckExpiredError refuses the redemption of a check that is too old. It may have been redeemed in time.
type CheckExpiredError struct {
	Within    time.Duration
	OfPayment bool
	Restored  bool // it is younger than that, and from before the record was restored from a backup
}

func (e *CheckExpiredError) Error() string {
	if e.Restored {
		return fmt.Sprintf("the check is younger than the %d minutes in which it could be redeemed, but the record was restored from a backup "+
			"since: the check may have been redeemed, and its action carried out, after the backup; do neither again before whoever moves "+
			"the money says that nothing was moved under this check_id", e.Within/time.Minute)
	}
	return fmt.Sprintf("the check is older than the %d minutes in which it could be redeemed; it may have been redeemed in time: "+
		"look at the check a minute later; if nobody redeemed it, and the record was not restored from a backup since, report it as voided, "+
		"and %s",
		e.Within/time.Minute, again(e.OfPayment))
}

// ActionMismatchError refuses the redemption for another action than the check's.
type ActionMismatchError struct{ Names []string } // the members that differ; nil if the caller may not know them

func (e *ActionMismatchError) Error() string {
	text := "the action is not the one that was allowed"
	if e.Names != nil {
		text += ": it differs in " + strings.Join(e.Names, ", ")
	}
	return text
}

// Redemption is a request to redeem a check.
type Redemption struct {
	IdempotencyKey string
	ActionHash     *spend.Hash   // of the action that is about to be carried out, or
	Action         *spend.Action // the action itself; where empty, agent, policy and type are the check's
}

// Untouched returns a check without recorded outcomes, if the store knows that without reading other
// rows; else nil.
func (a *Authorizer) Untouched(ctx context.Context, id spend.ID) (*spend.Check, error) {
	check, _, err := a.toRedeem.Get(ctx, id)
	return check, err
}

// Redeem records that the action of a check, which the caller may see, is about to be carried out; it
// succeeds once (S74). untouched says that the check had no outcome a moment ago. The request has the
// caller's access. Errors: ErrCheckNotAllowed, *AlreadyRedeemedError, *CheckReleasedError,
// *CheckExpiredError, *ActionMismatchError, audit.ErrNotFound, ErrOverloaded, or
// ErrUnavailable: then the redemption may have been recorded, and repeating it under the same
// idempotency key shows that.
func (a *Authorizer) Redeem(
	ctx context.Context, r Request, check *spend.Check, untouched bool, asked Redemption,
) (o *spend.Outcome, replayed bool, err error) {
	if check.Decision.Effect != spend.Allow {
		return nil, false, ErrCheckNotAllowed
	}
	terms, err := a.redeemTerms(ctx, check)
	if err != nil {
		return nil, false, err
	}
	mismatch := a.mismatch(r.Access, check, &asked)
	o, replayed, err = a.take(ctx, r, check, untouched, func(course *spend.Course, refused error) (*spend.Outcome, bool, error) {
		if refused != nil {
			if err := a.stillThere(ctx, check); err != nil {
				return nil, false, err
			}
		}
		o := redemptionOf(r, check, &asked, terms)
		o.Step = course.Next()
		again := course.Redeemed != nil && course.Doubt == nil && course.Reports == nil &&
			!o.Replay.IsZero() && course.Redeemed.Replay == o.Replay && course.Taken == nil &&
			(r.Payment == nil || course.Redeemed.Payment.Step(r.Access.namespace(), r.Payment.Key) != nil)
		switch {
		case course.Redeemed != nil && !again:
			return nil, false, &AlreadyRedeemedError{By: course.Holder(), Last: course.Last()}
		case !again && a.catalog.view().stopsCheck(check):
			return nil, false, ErrCheckStopped
		case course.Reports != nil:
			if slices.Contains(course.Last().Payment.Flags, spend.FlagSuperseded) {
				if err := a.payable(ctx, r.Access, r.ownPayment(), check); err != nil {
					return nil, false, err
				}
			}
			return nil, false, &CheckReleasedError{course.Last(), check.Payment != nil}
		case !again && (a.now().After(o.RedeemBy) || errors.Is(refused, commit.ErrLate)):
			restored := o.RedeemBy.Sub(a.now()) > aheadBy
			return nil, false, &CheckExpiredError{Within: terms.Within(), OfPayment: check.Payment != nil, Restored: restored}
		}
		if f := a.frozenCheck(a.catalog.view(), r.Access, check, o.ID.Time()); f != nil {
			return nil, false, f.err(nil)
		}
		if again && mismatch == nil {
			return course.Redeemed, true, nil
		}
		if err := a.payable(ctx, r.Access, r.ownPayment(), check); err != nil && !again {
			return nil, false, err
		}
		return o, false, mismatch
	})
	if err == nil {
		err = a.mayAnswer(ctx, r.Started, r.Access, check, true)
	}
	return o, replayed, err
}

// redemptionOf returns the redemption of a check, without its step.
func redemptionOf(r Request, check *spend.Check, asked *Redemption, terms spend.RedeemTerms) *spend.Outcome {
	key := r.Access.key
	return &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: check.ID, Status: spend.Redeemed, Release: spend.ReleaseNone,
		KeyID: key.name, Principal: key.Grants.Principal, RequestID: r.ID, Check: check, RedeemBy: check.Timestamp().Add(terms.Within()),
		Replay: spend.RedemptionReplay(key.name, asked.IdempotencyKey),
	}
}

// stillThere fails with audit.ErrNotFound if the store lacks the check of a redemption that it
// refused: the check may have been found in memory, or in a database that is gone.
func (a *Authorizer) stillThere(ctx context.Context, check *spend.Check) error {
	switch found, err := a.store.Checks(ctx, []spend.ID{check.ID}); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case len(found) == 0:
		return audit.ErrNotFound
	}
	return nil
}

// mismatch returns why the action is not the check's; nil if it is.
func (a *Authorizer) mismatch(access Access, check *spend.Check, asked *Redemption) error {
	var names []string
	if asked.ActionHash != nil {
		if *asked.ActionHash == spend.ActionHash(check) {
			return nil
		}
		names = []string{"action_hash"}
	} else {
		action := *asked.Action
		action.AgentID, action.PolicyID = cmp.Or(action.AgentID, check.Action.AgentID), cmp.Or(action.PolicyID, check.Action.PolicyID)
		resolved := check.ActionType
		if action.Type != spend.Unspecified || action.ReasonText != "" {
			resolved = a.resolve(&action).Type
		}
		if names = check.Differing(&action, resolved); names == nil {
			return nil
		}
	}
	if access.permit(spend.ChecksRead) != nil {
		names = nil
	}
	return &ActionMismatchError{names}
}

// Doubt records that nobody knows whether a check that the caller redeemed was carried out. Errors:
// ErrCheckNotRedeemed, *AlreadyRedeemedError for another redeemer, *AlreadyReportedError, and the
// errors with which Redeem gives no certain answer.
func (a *Authorizer) Doubt(
	ctx context.Context, r Request, check *spend.Check, note string, redemption spend.ID,
) (course spend.Course, replayed bool, err error) {
	_, replayed, err = a.take(ctx, r, check, false, func(known *spend.Course, _ error) (*spend.Outcome, bool, error) {
		course = *known
		switch {
		case known.Redeemed == nil:
			return nil, false, ErrCheckNotRedeemed
		case !redemption.IsZero() && !known.Held(redemption):
			return nil, false, ErrUnknownRedemption
		case known.Taken != nil && known.Holder().ID != redemption:
			return nil, false, ErrCheckTakenOver
		case !r.Access.redeemed(known.Holder()):
			return nil, false, &AlreadyRedeemedError{By: known.Holder(), Last: known.Last()}
		case known.Reports != nil:
			return nil, false, &AlreadyReportedError{known.Last()}
		case known.Doubt != nil:
			return known.Doubt, true, nil
		}
		o := doubtOf(known, check)
		o.KeyID, o.Principal, o.RequestID, o.Note = r.Access.key.name, r.Access.key.Grants.Principal, r.ID, note
		course.Doubt = o
		return o, false, nil
	})
	return course, replayed, err
}

func doubtOf(course *spend.Course, check *spend.Check) *spend.Outcome {
	return &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: check.ID, Step: course.Next(), Status: spend.InDoubt, Release: spend.ReleaseNone,
		Check: check,
	}
}

// doubtsAtOnce bounds how many redeemed checks are looked at together.
const doubtsAtOnce = 100

// Doubts records for each check that was redeemed long ago without a report that it is in doubt. Any
// node may call it at any time, and some node must every few seconds. It returns how many checks are
// in doubt. A check that cannot be recorded, or that the store lacks, delays no other.
func (a *Authorizer) Doubts(ctx context.Context) (inDoubt int64, err error) {
	err = a.eachDue(ctx, doubtsAtOnce, func(most int) ([]spend.ID, error) {
		found, err := a.store.Doubts(ctx, most)
		inDoubt = found.InDoubt
		return found.Due, err
	}, a.doubt)
	return inDoubt, err
}

// doubt records that a redeemed check is in doubt, unless another step came first.
func (a *Authorizer) doubt(ctx context.Context, check *spend.Check) error {
	_, _, err := a.take(ctx, Request{Started: time.Now()}, check, false, func(course *spend.Course, _ error) (*spend.Outcome, bool, error) {
		if course.Redeemed == nil || course.Doubt != nil || course.Reports != nil {
			return nil, true, nil
		}
		o := doubtOf(course, check)
		o.KeyID = spend.SystemKey
		return o, false, nil
	})
	return err
}

// redeemed reports whether the caller is the redeemer: by the API key, or by another key of its
// principal that redeems, which may have replaced it.
func (a Access) redeemed(o *spend.Outcome) bool {
	return a.key.name == o.KeyID || a.key.scopes.Has(spend.ChecksRedeem) && spend.SameName(a.principal(), o.Reporter())
}
