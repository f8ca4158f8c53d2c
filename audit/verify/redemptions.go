package verify

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// openRedemption is a redeemed check noted as being without an outcome.
type openRedemption struct {
	Check    spend.ID
	Redeemed time.Time
	Doubted  *time.Time // nil until it is in doubt
}

// course is the result of a check's steps, as far as its row must be compared with them.
type course struct {
	check    spend.ID
	last     *spend.Outcome // the last report, or other step that corrects what the check took; nil without one
	again    bool           // there was a report before the last
	most     *spend.Outcome // the report with the largest excess that counts
	redeemed *spend.Outcome
	held     []*spend.Outcome // the redemption, and the take-overs
	doubt    *spend.Outcome   // since the last of them
	report   *spend.Outcome   // the last one
	reported bool
	lapsed   *spend.Outcome
	stopped  *spend.Outcome
	executed *spend.Outcome // the first report of that kind without a redemption
	unnamed  *spend.Outcome // the first step that names no payment
	other    *spend.Outcome
}

// plain reports whether there is nothing to compare with the check.
func (c *course) plain(required bool) bool {
	return c.last == nil && c.redeemed == nil && c.unnamed == nil && (c.executed == nil || !required)
}

// courses are what is known about redemptions, apart from the rows of a slice.
type courses struct {
	terms    map[PolicyVersion]spend.RedeemTerms // of unaltered versions
	required bool                                // by any unaltered version

	mu       sync.Mutex
	lost     map[spend.ID]struct{} // checks with a step that has a finding, so that their other steps prove nothing
	suspects []suspect
}

// suspect is a finding that is reported unless a step of the check has one of its own.
type suspect struct {
	check spend.ID
	Finding
}

func newCourses() courses {
	return courses{terms: make(map[PolicyVersion]spend.RedeemTerms), lost: make(map[spend.ID]struct{})}
}

// policy notes the terms of a version for redemptions.
func (c *courses) policy(p PolicyVersion, fields [][]byte) {
	terms, err := spend.ParseRedeemTerms(string(fields[chain.Policies().Index("redeem")]))
	if err != nil {
		return // it was altered, which its hash shows
	}
	c.terms[p] = terms
	c.required = c.required || terms.Required
}

// lose notes the check of an altered outcome.
func (c *courses) lose(fields [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(fields[1]) == len(spend.ID{}) {
		c.lost[spend.ID(fields[1])] = struct{}{}
	}
}

func (c *courses) suspect(check spend.ID, kind Kind, subject, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspects = append(c.suspects, suspect{check, Finding{kind, subject, fmt.Sprintf(format, args...)}})
}

// stray names a step that no node would record.
func (s *slice) stray(o *spend.Outcome, why string) {
	s.verifier.courses.suspect(o.CheckID, Inserted, outcomeName(o.ID), "it is recorded as %s of %s: %s", o.Status, checkName(o.CheckID), why)
}

// loadCourses reads the steps of the slice's checks, and compares them with the checks noted as
// redeemed and without an outcome.
func (s *slice) loadCourses(ctx context.Context) error {
	open := make(map[spend.ID]openRedemption)
	noted := Walk{Table: chain.OpenRedemptions(), By: "check_id", Range: s.r, Order: "check_id"}
	err := walkFields(ctx, s.o.Evidence, noted, func(f [][]byte, _ []byte) error {
		o := openRedemption{Check: identifier(f[0])}
		o.Redeemed, _ = chain.Time(f[1])
		if doubted, ok := chain.Time(f[2]); ok {
			o.Doubted = &doubted
		}
		s.tally.openRedemptions.Add(1)
		open[o.Check] = o
		return nil
	})
	if err != nil {
		return err
	}
	var c course
	end := func() {
		s.open(&c, open)
		if !c.plain(s.verifier.courses.required) {
			s.courses = append(s.courses, c)
		}
	}
	err = s.o.Evidence.Walk(ctx, Steps(s.r), func(row []byte) error {
		o, err := chain.ParseOutcome(row)
		if err != nil {
			return nil //nolint:nilerr // it is reported as altered
		}
		if o.CheckID != c.check {
			end()
			c = course{check: o.CheckID}
		}
		if err := s.payStep(&c, o); err != nil {
			return err
		}
		s.follow(&c, o)
		return nil
	})
	if err != nil {
		return err
	}
	end()
	for check := range open {
		s.verifier.courses.suspect(check, Inserted, openName(check), "the check was not redeemed")
	}
	return nil
}

// follow adds a step, and names one that cannot follow the previous steps (S74).
func (s *slice) follow(c *course, o *spend.Outcome) {
	if o.Release == spend.ReleaseDone || o.Excess == spend.ExcessCounted || o.Number > 1 {
		c.last = o
	}
	c.again = c.again || o.Number > 1
	if o.Excess == spend.ExcessCounted && (c.most == nil || c.most.Amount.Total().Cmp(o.Amount.Total()) < 0) {
		c.most = o
	}
	by := c.holder()
	switch {
	case flaggedVoid(o) && (o.Status != spend.Voided || o.Step != 1 || o.KeyID != spend.SystemKey):
		s.stray(o, "the service alone gives a check back so, and before anything else")
	case o.Status == spend.Redeemed && (by != nil || o.Step != 1):
		s.stray(o, "it was redeemed before, or had an outcome")
	case o.Status == spend.Redeemed:
		c.redeemed, c.held = o, append(c.held, o)
	case o.Status == spend.InDoubt && (by == nil || c.doubt != nil || c.reported):
		s.stray(o, "it is not redeemed, in doubt before or has an outcome")
	case o.Status == spend.InDoubt:
		c.doubt = o
		if o.KeyID != spend.SystemKey && !redeemer(by, o) {
			s.stray(o, "by another than who redeemed it")
		} else if o.KeyID == spend.SystemKey && o.ID.Time().Before(by.ID.Time().Add(spend.DoubtAfter-lateCommit)) {
			s.stray(o, "it was redeemed at "+stamp(by.ID.Time())+", and the service waits for "+spend.DoubtAfter.String())
		}
	case o.Status == spend.TakenOver && (by == nil || c.reported):
		s.stray(o, "it is not redeemed, or has an outcome")
	case o.Status == spend.TakenOver:
		c.doubt, c.held = nil, append(c.held, o)
		if !redeemer(by, o) {
			s.stray(o, "by another principal than who redeemed it")
		}
	case by == nil && o.Status == spend.Executed && c.executed == nil:
		c.executed = o
	case by != nil && o.Status == spend.Executed && slices.ContainsFunc(c.held, func(by *spend.Outcome) bool { return redeemer(by, o) }):
	case by != nil && !redeemer(by, o):
		if !o.MayRelease || !c.reported && c.doubt == nil {
			s.stray(o, "by another than who redeemed it")
		} else if c.other == nil {
			c.other = o
		}
	}
	if o.Status.Known() {
		c.reported, c.report = true, o
	}
	if slices.Contains(o.Payment.Flags, spend.FlagLapsed) {
		c.lapsed = o
	}
	if slices.Contains(o.Payment.Flags, spend.FlagStopped) {
		c.stopped = o
	}
}

// holder returns the step by which the check is redeemed: the last take-over, else the redemption; nil without one.
func (c *course) holder() *spend.Outcome {
	if len(c.held) == 0 {
		return nil
	}
	return c.held[len(c.held)-1]
}

// flaggedVoid reports whether a step has a flag of a report by which the service gives a check back (S84).
func flaggedVoid(o *spend.Outcome) bool {
	return slices.ContainsFunc(o.Payment.Flags, func(f spend.Flag) bool {
		return f == spend.FlagLapsed || f == spend.FlagStopped || f == spend.FlagReplaced || f == spend.FlagSuperseded
	})
}

// redeemer reports whether a step may be by the redeemer: by the same API key, or another of the
// same principal.
func redeemer(by, o *spend.Outcome) bool {
	return o.KeyID == by.KeyID || spend.SameName(o.Reporter(), by.Reporter())
}

// open compares the note about a check with its steps, and removes the note.
func (s *slice) open(c *course, noted map[spend.ID]openRedemption) {
	row, is := noted[c.check]
	delete(noted, c.check)
	due := c.redeemed != nil && !c.reported
	name, found := openName(c.check), &s.verifier.courses
	apart := func(at time.Time, o *spend.Outcome) bool { return at.Sub(o.ID.Time()).Abs() > lateCommit }
	switch {
	case is && !due:
		found.suspect(c.check, Inserted, name, "the check was not redeemed, or has an outcome")
	case due && !is:
		found.suspect(c.check, Removed, name, "%s has it", outcomeName(c.redeemed.ID))
	case due && ((row.Doubted != nil) != (c.doubt != nil) || apart(row.Redeemed, c.holder()) ||
		c.doubt != nil && apart(*row.Doubted, c.doubt)):
		found.suspect(c.check, Altered, name, "it is noted otherwise than its steps have it, or a commit was held up, or a clock was off")
	}
}

// courseOf returns the course of a check; zero if there is nothing to compare. It must be called in
// the order of identifiers.
func (s *slice) courseOf(check spend.ID) (c course) {
	for len(s.courses) > 0 && !less(check, s.courses[0].check) {
		if s.courses[0].check == check {
			c = s.courses[0]
		}
		s.courses = s.courses[1:]
	}
	return c
}

// held compares the course of a check with the check, which is the current row, and with the policy
// version that judged it.
func (s *slice) held(c course) {
	version := binary.BigEndian.Uint32(s.fields[chain.FieldPolicyVersion])
	terms, is := s.verifier.courses.terms[PolicyVersion{string(s.fields[chain.FieldPolicyID]), int(version)}]
	told := s.fields[chain.FieldPayment] != nil && c.executed != nil && slices.Contains(c.executed.Payment.Flags, spend.FlagUnredeemed)
	switch by := c.redeemed; {
	case is && c.lapsed != nil && c.lapsed.ID.Time().Before(c.check.Time().Add(terms.Within()-lateCommit)) &&
		!s.stoppedBefore(c.lapsed, s.restores):
		s.stray(c.lapsed, "its policy leaves more time to redeem it")
	case is && c.lapsed != nil && !terms.Required && s.fields[chain.FieldPayment] == nil:
		s.stray(c.lapsed, "whoever was allowed may have carried it out without a redemption")
	case by == nil && is && terms.Required && c.executed != nil && !told:
		s.verifier.courses.suspect(c.check, Inserted, outcomeName(c.executed.ID),
			"it is recorded as executed of %s, which was not redeemed, as its policy requires", checkName(c.check))
	case by == nil:
	case string(s.fields[chain.FieldDecision]) != "a":
		s.stray(by, "it was not allowed")
	case is && by.ID.Time().After(c.check.Time().Add(terms.Within()+lateCommit)):
		s.stray(by, "it was older than its policy allows")
	case c.other != nil:
		asked := audit.Party{
			KeyID: string(s.fields[chain.FieldKeyID]), Principal: string(s.fields[chain.FieldPrincipal]), Owner: string(s.fields[chain.FieldOwner]),
		}
		if asked.Shares(audit.Party{KeyID: c.other.KeyID, Principal: c.other.Reporter()}) {
			s.stray(c.other, "by who asked for it, and did not redeem it")
		}
	}
}

// redemptions names the suspects that the walk over the checks found (G14).
func (v *verifier) redemptions(context.Context) error {
	named := make(map[string]bool)
	for _, s := range v.courses.suspects {
		if _, lost := v.courses.lost[s.check]; !lost && !named[s.Subject] {
			named[s.Subject] = true
			v.tally.find(s.Kind, s.Subject, "%s", s.Detail)
		}
	}
	return nil
}

func openName(check spend.ID) string { return "open redemption of " + checkName(check) }
