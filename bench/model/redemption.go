package model

import "slices"

// Redemptions: whoever moves the money redeems the allowed check, once. Redemptions, statements
// that one is in doubt, and reports are the steps of a check. Each reads the steps so far, judges
// by them, and is recorded as the next step or not at all; then it reads them again. A redemption
// may leave out the first reading: its commit compares the action, too.

// maxSteps is how many steps a check has at most: each request records one.
const maxSteps = maxChecks

// course is what became of a check: the requests that recorded its steps, from 1, in order.
type course struct {
	steps    [maxSteps]uint8
	redeemed tick // when the redemption was recorded
	doubted  tick
}

func (c *course) next() uint8 {
	return uint8(slices.IndexFunc(append(c.steps[:], 0), func(by uint8) bool { return by == 0 })) + 1
}

// stepped reports whether the model has redemptions, so that its reports are steps.
func (x *explorer) stepped() bool {
	return slices.ContainsFunc(x.Checks, func(c Check) bool { return c.Redeems > 0 })
}

// isStep reports whether a request is a step, and not a report that is also modelled without steps.
func (c Check) isStep() bool { return c.Redeems > 0 || c.Doubts > 0 || c.Executes > 0 }

// known is the result of the steps of a check, as in spend.CourseOf.
type known struct {
	redeemed        *Check // the redeeming request
	doubt, reported bool
}

func (x *explorer) courseOf(r *row) (k known) {
	for _, by := range r.course.steps {
		if by == 0 {
			continue
		}
		switch c := &x.Checks[by-1]; {
		case c.Redeems > 0:
			k.redeemed = c
		case c.Doubts > 0:
			k.doubt = true
		case !c.Pending || !x.is(PendingLeavesRedemption):
			k.reported = true
		}
	}
	return k
}

// look judges a step by the record, as hotpath's take and next do. It returns false if the request
// has its answer.
func (x *explorer) look(t *state, i int) (text string, goes bool) {
	r, c := t.row(t.attempts[i].target), &x.Checks[i]
	k := x.courseOf(r)
	switch {
	case c.Redeems > 0:
		return x.lookToRedeem(t, i, r, k)
	case c.Doubts > 0:
		return x.lookToDoubt(t, i, r, k)
	}
	if by := k.redeemed; by != nil && by.Principal != c.Principal && !x.is(ReportIgnoresRedemption) {
		others := k.doubt && !x.is(DoubtEndsNothing) || x.is(ExclusiveForATime) && x.due(t, r)
		if !others || c.Pending || c.Principal == requester && !x.is(AskerReportsDoubt) {
			x.endStep(t, i, answeredRefused, r)
			return "Report: it is redeemed by another", false
		}
	}
	if c.Executes > 0 && k.redeemed == nil && x.Required && !x.is(ExecutedUnredeemed) {
		x.endStep(t, i, answeredRefused, r)
		return "Report: it is not redeemed", false
	}
	if k.reported && r.outcome != releasePending {
		x.endStep(t, i, answeredRefused, r)
		return "Report: another's is recorded", false
	}
	return "Report: is appended", true
}

func (x *explorer) lookToRedeem(t *state, i int, r *row, k known) (string, bool) {
	c := &x.Checks[i]
	own := k.redeemed != nil && !c.Differs && c.Replay > 0 &&
		k.redeemed.Replay == c.Replay && (k.redeemed.Principal == c.Principal || x.is(ReplayOfAnother))
	switch {
	case own && (!k.doubt && !k.reported || x.is(ReplayAfterDoubt)):
		x.endStep(t, i, answeredReplayed, r)
		return "Redeem: replays", false
	case k.redeemed != nil:
		x.endStep(t, i, answeredRefused, r)
		return "Redeem: is redeemed", false
	case k.reported:
		x.endStep(t, i, answeredRefused, r)
		return "Redeem: has an outcome", false
	case x.late(t, r):
		x.endStep(t, i, answeredRefused, r)
		return "Redeem: is too old", false
	case c.Differs:
		x.endStep(t, i, answeredRefused, r)
		return "Redeem: is for another action", false
	}
	return "Redeem: is appended", true
}

func (x *explorer) lookToDoubt(t *state, i int, r *row, k known) (string, bool) {
	c := &x.Checks[i]
	switch {
	case c.System && k.redeemed != nil && !x.due(t, r) && !x.is(DoubtAtOnce), k.redeemed == nil, k.reported, k.doubt, !c.System &&
		k.redeemed.Principal != c.Principal && !x.is(DoubtOfAnother):
		x.endStep(t, i, answeredRefused, r)
		return "Doubt: there is nothing to say", false
	}
	return "Doubt: is appended", true
}

// due reports whether a redemption is so old that the service says it is in doubt.
func (x *explorer) due(t *state, r *row) bool {
	return int(t.now) >= int(r.course.redeemed)+x.DoubtAfter
}

// late reports whether a check is too old to be redeemed.
func (x *explorer) late(t *state, r *row) bool {
	return x.RedeemWithin > 0 && int(t.now) > int(r.since)+x.RedeemWithin
}

// proved reports whether a step may be recorded: insert_outcomes.
func (x *explorer) proved(t *state, c *txn, r *row) bool {
	of := &x.Checks[c.by-1]
	if c.step != r.course.next() && !x.is(StepsNotUnique) {
		return false
	}
	if of.Redeems == 0 {
		return true
	}
	if c.compare && of.Differs && !x.is(ActionNotProved) {
		return false
	}
	return !x.late(t, r) || x.is(LatenessLookedUp)
}

// commitStep records a step. For a report it then does what any report does.
func (x *explorer) commitStep(t *state, c *txn) string {
	r, of := t.row(c.row.check), &x.Checks[c.by-1]
	if !x.proved(t, c, r) {
		c.state = txnOvertaken
		return "step: another is recorded, or it comes too late"
	}
	r.course.steps[r.course.next()-1] = c.by
	switch {
	case of.Redeems > 0:
		r.course.redeemed = t.now
	case of.Doubts > 0:
		r.course.doubted = t.now
	}
	return ""
}

// hasStep reports whether a request's step is recorded.
func (r *row) hasStep(i int) bool { return slices.Contains(r.course.steps[:], uint8(i+1)) }

// endStep answers a request about a check.
func (x *explorer) endStep(t *state, i int, kind answer, r *row) {
	c, k := &x.Checks[i], x.courseOf(r)
	switch {
	case kind == answeredReplayed && (k.doubt || k.reported):
		kind = answeredReplayedLate
	case kind == answeredRefused && c.Voids > 0 && !c.Pending && c.Principal != requester && k.doubt && !k.reported:
		kind = answeredShut
	}
	x.end(t, i, kind, r.check)
}

// brokenCourse checks G14.
func (x *explorer) brokenCourse(s *state) string {
	for i := range s.rows {
		r := &s.rows[i]
		if text := x.brokenSteps(r); r.check != 0 && text != "" {
			return text
		}
	}
	for i, c := range x.Checks {
		a := &s.attempts[i]
		switch {
		case a.answer == answeredReplayedLate:
			return "G14: a redemption was replayed that is in doubt, or has an outcome"
		case a.answer == answeredShut:
			return "S74: who releases may not report what is in doubt"
		case a.answer == answeredRedeemed && !s.row(a.answered).hasStep(i):
			return "G14: a redemption was answered and is not recorded"
		case a.answer != answeredRedeemed && a.answer != answeredReplayed:
			continue
		}
		for j, o := range x.Checks[:i] {
			b := &s.attempts[j]
			if b.answered == a.answered && (b.answer == answeredRedeemed || b.answer == answeredReplayed) &&
				(o.Principal != c.Principal || o.Replay != c.Replay || c.Replay == 0) {
				return "G14: a check was redeemed for two"
			}
		}
	}
	return ""
}

// brokenSteps names what the steps of a check, in order, break.
func (x *explorer) brokenSteps(r *row) string {
	var by *Check
	doubt, reported := false, false
	for _, i := range r.course.steps {
		if i == 0 {
			break
		}
		c := &x.Checks[i-1]
		switch {
		case c.Redeems > 0 && by != nil:
			return "G14: a check was redeemed twice"
		case c.Redeems > 0 && reported:
			return "G14: a check was redeemed behind a report"
		case c.Redeems > 0 && x.RedeemWithin > 0 && int(r.course.redeemed) > int(r.since)+x.RedeemWithin:
			return "G14: a check was redeemed too late"
		case c.Differs && c.Redeems > 0:
			return "G14: a check was redeemed for another action"
		case c.Redeems > 0:
			by = c
		case c.Doubts > 0 && (by == nil || doubt || reported):
			return "S74: a check is in doubt that is not redeemed, or has an outcome"
		case c.Doubts > 0 && c.System && int(r.course.doubted) < int(r.course.redeemed)+x.DoubtAfter:
			return "S74: the service says too early that a check is in doubt"
		case c.Doubts > 0 && !c.System && c.Principal != by.Principal:
			return "S74: another than the redeemer says that a check is in doubt"
		case c.Doubts > 0:
			doubt = true
		case by == nil && c.Executes > 0 && x.Required:
			return "S74: a check is executed without the redemption that its policy requires"
		case by != nil && c.Principal != by.Principal && (!doubt && !reported || c.Pending || c.Principal == requester):
			return "G14: another than the redeemer reported a redeemed check"
		default:
			reported = true
		}
	}
	return ""
}
