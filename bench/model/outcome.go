package model

import "slices"

// A report says that what a check allowed did not happen: in a transaction of its own it gives
// back, once, what the check took, and the check is no longer a pass. Nothing is written to Redis:
// whoever meets the check's claim there asks the store. A correction says that a check was carried
// out after all; it first claims the check's fingerprint, as a check does, so that nobody passes
// meanwhile.

// releases reports whether a request is a report by a key that may release. A report by another key
// is recorded, and gives nothing back.
func (c Check) releases() bool { return c.Voids > 0 && !c.Pending }

// about is the check that a report is about, from 1; 0 if it is not a report.
func (c Check) about() int { return max(c.Voids, c.Restores, c.Redeems, c.Doubts, c.Executes) }

// claims reports whether a correction claims the check's fingerprint: a pass whose windows are
// over, or about which an ended attempt reported, holds nothing.
func (x *explorer) claims(t *state, i int) bool {
	r := t.row(t.attempts[i].target)
	return x.Checks[i].Restores > 0 && r.released() && r.until > t.now && !x.is(RestoredWithoutClaim)
}

// reported is the allowed check that a report concerns.
func (x *explorer) reported(s *state, i int) *row {
	for n := range s.rows {
		r := &s.rows[n]
		if r.check != 0 && r.of == 0 && r.verdict == allowed && r.check.owner() == x.Checks[i].about()-1 {
			return r
		}
	}
	return nil
}

// beginReport begins a report once its check is recorded: the reporter may know the check from a
// list, before its own request was answered.
func (x *explorer) beginReport(s *state, i int) {
	t := *s
	a := &t.attempts[i]
	r := x.reported(&t, i)
	if r != nil && x.Checks[i].Restores > 0 && !r.released() {
		a.pc = pcEnd
		x.emit(&t, "Report: there is nothing to correct", i)
		return
	}
	if r != nil {
		if a.pc, a.target = pcReport, r.check; x.claims(&t, i) {
			a.pc = pcSendClaims
		}
		x.emit(&t, "Report: begins", i)
		return
	}
	if pc := s.attempts[x.Checks[i].about()-1].pc; pc == pcEnd || pc == pcDead {
		a.pc = pcEnd
		x.emit(&t, "Report: nothing was allowed", i)
	}
}

func (x *explorer) report(s *state, i int) {
	t := *s
	a, n := &t.attempts[i], &t.nodes[x.node(i)]
	switch a.pc {
	case pcReport:
		said, compare := "Report: is appended", x.Checks[i].Compared && !a.reads
		if x.stepped() && !compare {
			var goes bool
			if said, goes = x.look(&t, i); !goes {
				x.emit(&t, said, i)
				return
			}
		}
		if !a.fingerprint.mine || x.is(RestoredInAnotherEpoch) {
			a.fence, a.run = fence{n.inc, n.windows.epoch}, n.windows.run
		}
		a.pc = pcReporting
		c := txn{row: row{check: a.target}, fence: a.fence, present: true, by: uint8(i + 1), compare: compare}
		switch {
		case compare:
			c.step, a.reads, said = 1, true, "Redeem: is appended, and the check was not read"
		case x.stepped():
			c.step = t.row(a.target).course.next()
		}
		x.appendTxn(&t, c)
		x.emit(&t, said, i)
	case pcReporting:
		x.reporting(s, i)
	case pcReportResolve:
		if x.fenceNode(&t, a.fence.node) {
			a.pc = pcReportLook
			x.emit(&t, "Report: fences its own incarnation", i)
		}
	default:
		if x.isReported(&t, i) {
			x.answerReport(&t, i)
			x.emit(&t, "Report: is recorded, and answered", i)
			return
		}
		x.reportAgain(&t, i, false)
		x.emit(&t, "Report: is absent", i)
	}
}

// reporting waits for the report's commit and acts on its outcome.
func (x *explorer) reporting(s *state, i int) {
	c := slices.IndexFunc(s.txns[:], func(c txn) bool { return c.by == uint8(i+1) && !c.unread })
	if c < 0 {
		return // there was no room for it
	}
	if s.budgets.lostCommits > 0 {
		t := *s
		t.budgets.lostCommits--
		t.txns[c].unread = true
		t.attempts[i].pc = pcReportResolve
		x.retire(&t, i)
		x.emitFault(&t, "Report: the connection is lost in COMMIT", i)
	}
	t := *s
	outcome := t.txns[c].state
	t.txns[c] = txn{}
	switch outcome {
	case txnSent, txnEntered:
	case txnStaleEpoch, txnFenced:
		x.reportAgain(&t, i, outcome == txnStaleEpoch)
		x.emit(&t, "Report: learns that the fence refused it", i)
	case txnOvertaken:
		t.attempts[i].pc = pcReport
		x.emit(&t, "Report: learns that it is overtaken", i)
	default: // recorded now, or by another report
		x.releaseNames(&t, i)
		x.answerReport(&t, i)
		x.emit(&t, "Report: is answered", i)
	}
}

// reportAgain appends the report again, as a new incarnation or in the current epoch.
func (x *explorer) reportAgain(t *state, i int, staleEpoch bool) {
	a := &t.attempts[i]
	x.releaseClaims(t, i)
	if !staleEpoch {
		x.retire(t, i)
	}
	if a.reclaims++; int(a.reclaims) > x.Reclaims {
		x.end(t, i, answeredError, 0)
		return
	}
	if a.pc = pcReport; x.claims(t, i) {
		a.pc = pcSendClaims
	}
	if staleEpoch {
		x.renew(t, i)
	}
}

// isReported reports whether the store has the report, or one that it does not follow.
func (x *explorer) isReported(t *state, i int) bool {
	r := t.row(t.attempts[i].target)
	switch {
	case x.stepped():
		return r.hasStep(i)
	case x.Checks[i].Restores > 0:
		return r.outcome >= restored
	case !x.Checks[i].releases():
		return r.outcome != noOutcome
	}
	return r.outcome >= released
}

// answerReport: from now on an identical action may be checked again, or may no longer be. The
// restored check has the name that was claimed for it.
func (x *explorer) answerReport(t *state, i int) {
	a := &t.attempts[i]
	switch r := t.row(a.target); {
	case x.Checks[i].Redeems > 0:
		x.endStep(t, i, answeredRedeemed, r)
		return
	case x.Checks[i].Restores > 0 && r.outcome >= restored:
		r.outcome = restoreAnswered
		if a.fingerprint.mine && !x.is(RestoredClaimReleased) {
			a.fingerprint.unverified = false
			a.fingerprint.replaced, a.fingerprint.replacedUntil = passHolder(*r), max(r.until, a.fingerprint.replacedUntil)
		}
	case r.released():
		r.outcome = releaseAnswered
	}
	x.end(t, i, answeredReport, 0)
}

// commitReport is the transaction of a report.
func (x *explorer) commitReport(t *state, c *txn) string {
	if text := x.enter(t, c); c.state != txnEntered {
		return "report: " + text
	}
	r, releases := t.row(c.row.check), x.Checks[c.by-1].releases() || x.is(PendingReleases)
	if c.state = txnCommitted; x.stepped() {
		if text := x.commitStep(t, c); text != "" {
			return text
		}
	}
	switch {
	case x.Checks[c.by-1].isStep():
		return "step: is recorded"
	case x.Checks[c.by-1].Restores > 0:
		return x.commitRestore(t, r)
	case r.outcome >= released && !x.is(ReleasedAgain), r.outcome == releasePending && x.is(PendingLocksOut):
		return "report: another's is recorded"
	case !releases:
		r.outcome = max(r.outcome, releasePending)
		return "report: is recorded as pending"
	}
	period := x.period(r.since)
	if x.is(ReleasedInThisPeriod) {
		period = x.period(t.now)
	}
	for n, amount := range x.charges(r.check.owner()) {
		t.used[n][period] -= amount
	}
	r.outcome = max(r.outcome, released)
	if r.uses && x.is(ReleaseUnuses) {
		t.approval.used = 0
	}
	return "report: is recorded"
}

// commitRestore is the transaction of a correction: the check counts again, above the
// limit if need be.
func (x *explorer) commitRestore(t *state, r *row) string {
	if !r.released() && !x.is(RestoredAgain) {
		return "correction: another's is recorded"
	}
	for n, amount := range x.charges(r.check.owner()) {
		t.used[n][x.period(r.since)] += amount
	}
	r.outcome = restored
	return "correction: is recorded"
}

// releaseNames is what no report does: it frees the name in Redis.
func (x *explorer) releaseNames(t *state, i int) {
	a := &t.attempts[i]
	f := &t.servers[t.nodes[x.node(i)].hot].f[x.name(t.nodes[x.node(i)].windows.epoch)][x.fingerprintOf(a.target)]
	if x.is(ReleaseDeletesName) || x.is(ReleaseDeletesClaim) && f.check == a.target {
		*f = slot{}
	}
}

// standing is what the store knows about a holder, as in records.passOf.
type standing uint8

const (
	absent standing = iota
	recorded
	withdrawn // recorded, and released since, or no pass from the first
)

// passOf asks the store about a check. That a check is absent, or is recorded and cannot be
// released, may be remembered; that a pass is not released may not.
func (x *explorer) passOf(t *state, i int, check id) standing {
	n, r := &t.nodes[x.node(i)], t.row(check)
	switch {
	case r == nil:
		return absent
	case n.seen&(1<<check.owner()) != 0:
		return recorded
	case r.released(), r.leavesNone() && !x.is(ExceededHolds), x.hasExpired(t, r) && !x.is(ExpiredHolds):
		return withdrawn
	}
	if x.is(SeenHidesRelease) {
		n.seen |= 1 << check.owner()
	}
	return recorded
}

// meet decides an attempt whose fingerprint is held by a check in the store: a pass, or one that is
// no longer a pass.
func (x *explorer) meet(t *state, i int, found standing) string {
	a := &t.attempts[i]
	orphaned := x.is(ReleasedAdopted) && a.met.state == orphan && !x.Checks[i].Key
	if found != withdrawn || orphaned {
		return x.meetRecorded(t, i)
	}
	if a.pc = pcTakeReleased; x.is(ReleasedTakenAsAged) {
		a.pc = pcTakeAged
	}
	return "it was released"
}

// answeredBefore returns the checks, by owner, whose outcome was already answered.
func (s *state) answeredBefore(o outcome) (owners uint8) {
	for i := range s.rows {
		if s.rows[i].outcome == o {
			owners |= 1 << s.rows[i].check.owner()
		}
	}
	return owners
}
