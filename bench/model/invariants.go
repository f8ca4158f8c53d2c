package model

import "fmt"

// Ended reports whether every check has its answer or has lost its node.
func (x *explorer) Ended(s *state) bool {
	for i := range x.Checks {
		if pc := s.attempts[i].pc; pc != pcEnd && pc != pcDead {
			return false
		}
	}
	return s.author.pc == authorIdle || !s.nodes[authorNode].alive
}

// Broken names the promise that a state breaks, if any.
func (x *explorer) Broken(s *state) string {
	for i := range s.rows {
		if r := s.rows[i]; r.check != 0 {
			if text := x.brokenBy(s, r); text != "" {
				return text
			}
		}
	}
	return x.brokenKey(s) + x.brokenAnswers(s) + x.brokenCounters(s) + x.brokenApproval(s) + x.brokenCourse(s)
}

func (x *explorer) brokenBy(s *state, r row) string {
	owner := r.check.owner()
	if owner < len(x.Checks) && r.version < s.attempts[owner].need {
		return fmt.Sprintf("G4: check %d was judged by version %d, and %d was answered before it began", owner, r.version, s.attempts[owner].need)
	}
	if r.of != 0 {
		if !s.recorded(r.of) {
			return fmt.Sprintf("G3: check %d is a duplicate of one that is not recorded", owner)
		}
		if s.row(r.of).leavesNone() {
			return fmt.Sprintf("S60: check %d is a duplicate of one that was blocked as exceeded", owner)
		}
		if x.Checks[owner].Again && s.row(r.of).verdict == blocked {
			return fmt.Sprintf("S60: check %d is a duplicate of one that was blocked, though its policy judges again", owner)
		}
		if x.Checks[owner].Uses && s.row(r.of).verdict != allowed {
			return fmt.Sprintf("G13: check %d is a duplicate of one that was not allowed, though that was approved", owner)
		}
		if of := s.row(r.of); x.asked(of) && s.attempts[owner].withdrawn&(1<<r.of.owner()) != 0 && !of.released() {
			return fmt.Sprintf("S60: check %d is a duplicate of one whose approval had expired before it began", owner)
		}
		if s.attempts[owner].withdrawn&(1<<r.of.owner()) != 0 && s.row(r.of).released() {
			return fmt.Sprintf("outcomes: check %d is a duplicate of one whose release was answered before it began", owner)
		}
		return ""
	}
	if r.verdict == untrue {
		return fmt.Sprintf("budgets: check %d was blocked as exceeded, and there was room all along", owner)
	}
	if r.leavesNone() {
		return "" // a check that leaves no fingerprint is no pass
	}
	if r.released() {
		if !x.releases(s, owner) {
			return fmt.Sprintf("outcomes: check %d was released by nobody who may", owner)
		}
		return "" // a released check is no pass any more
	}
	window := tick(0)
	if owner < len(x.Checks) {
		window = tick(x.Checks[owner].Window)
	}
	for _, other := range s.rows {
		if other.check == 0 || other.of != 0 || other.released() || other.leavesNone() || other.check == r.check ||
			x.fingerprintOf(other.check) != x.fingerprintOf(r.check) {
			continue
		}
		if x.asked(&other) && x.approvalStatus(s) == approvalExpired {
			continue // S60
		}
		if x.passed(r, other) || x.passed(other, r) || x.gaveWay(s, r, other) || x.gaveWay(s, other, r) {
			continue
		}
		// other is the earlier one, still in force and inside r's window.
		if other.since <= r.since && r.judged < other.until && r.judged-other.since < window {
			return fmt.Sprintf("G3: check %d passed at t%d, inside its window after the pass of t%d", owner, r.judged, other.since)
		}
	}
	return ""
}

// passed reports whether r passed an earlier check: with the approval one that was not allowed,
// under judge_again one that was blocked.
func (x *explorer) passed(r, other row) bool {
	owner := r.check.owner()
	if owner >= len(x.Checks) || other.since > r.since {
		return false
	}
	c := x.Checks[owner]
	return c.Uses && other.verdict != allowed || c.Again && other.verdict == blocked
}

// gaveWay reports whether r may have passed another check while that was given back.
func (x *explorer) gaveWay(s *state, r, other row) bool {
	owner := r.check.owner()
	return other.outcome >= restored && (owner >= len(x.Checks) || s.attempts[owner].restored&(1<<other.check.owner()) == 0)
}

// releases reports whether a report that may release the check has begun.
func (x *explorer) releases(s *state, owner int) bool {
	for i, c := range x.Checks {
		if c.releases() && c.Voids-1 == owner && s.attempts[i].pc != pcBegin {
			return true
		}
	}
	return false
}

// brokenKey checks that an idempotency key has one row and one answer.
func (x *explorer) brokenKey(s *state) string {
	var row, shown id
	for i := range s.rows {
		check := s.rows[i].check
		if check == 0 || check.owner() >= len(x.Checks) || !x.Checks[check.owner()].Key {
			continue
		}
		if row != 0 {
			return "G2: two rows under one idempotency key"
		}
		row = check
	}
	for i, c := range x.Checks {
		if a := &s.attempts[i]; c.Key && a.answered != 0 {
			if shown != 0 && shown != a.answered {
				return "G2: two answers under one idempotency key"
			}
			shown = a.answered
		}
	}
	return ""
}

// brokenAnswers checks that every answer is recorded, and that a pass is answered once.
func (x *explorer) brokenAnswers(s *state) string {
	for i, c := range x.Checks {
		a := &s.attempts[i]
		if c.releases() && a.answer == answeredReport && x.reported(s, i).outcome < released {
			return fmt.Sprintf("outcomes: report %d was answered and released nothing", i)
		}
		if c.Restores > 0 && a.answer == answeredReport && x.reported(s, i).outcome != restoreAnswered {
			return fmt.Sprintf("outcomes: correction %d was answered and restored nothing", i)
		}
		if a.answered == 0 {
			continue
		}
		if !s.recorded(a.answered) {
			return fmt.Sprintf("G1: check %d was answered and is not recorded", i)
		}
		if a.answer == answeredPass && a.withdrawn&(1<<a.answered.owner()) != 0 && s.row(a.answered).released() {
			return fmt.Sprintf("outcomes: check %d was answered one whose release was answered before it began", i)
		}
		for j := range i {
			if b := &s.attempts[j]; !c.Key && a.answer == answeredPass && b.answer == answeredPass && a.answered == b.answered {
				return fmt.Sprintf("G3: checks %d and %d were answered one pass", j, i)
			}
		}
	}
	return ""
}

// brokenCounters checks that recorded allows, less what was released, are within the limits, and
// that the counters agree with the record. Between two statements of a commit they may differ.
func (x *explorer) brokenCounters(s *state) string {
	if x.Limits == [maxCounters]uint8{} {
		return ""
	}
	var sum usage
	restores := false // which may lead above the limits
	for i := range s.rows {
		for c, amount := range x.taken(&s.rows[i]) {
			sum[c][x.period(s.rows[i].since)] += amount
			restores = restores || s.rows[i].outcome >= restored
		}
	}
	for c := range sum {
		for _, used := range sum[c] {
			if used > x.Limits[c] && !restores {
				return fmt.Sprintf("budgets: %d of %d of counter %d is recorded as allowed", used, x.Limits[c], c)
			}
		}
	}
	if sum != s.used && !s.entered(func(fence) bool { return true }) {
		return fmt.Sprintf("budgets: the counters say %d, the record %d", s.used, sum)
	}
	return ""
}
