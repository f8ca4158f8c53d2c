package model

import "math/bits"

// Groups: the recorded check asks for the approval of one person of each group. A node reads the
// decisions and the decider's groups, and its decision says whether it completes the request; the
// store proves both under the lock of the approval's row.

// groups are groups of people, a bit each. Group 0 is the first one asked.
type groups uint8

// groupsOf are the groups that a principal's key has now.
func (x *explorer) groupsOf(s *state, principal int) groups {
	if s.approval.regrouped && principal == regroupedPrincipal {
		return x.Regrouped
	}
	return x.Groups[principal]
}

// regroupedPrincipal is the principal whose key gets other groups.
const regroupedPrincipal = 1

// regroup gives a key other groups, as update_key does, which waits as patch does.
func (x *explorer) regroup(s *state) {
	if s.budgets.regroups == 0 || x.isDeciding(s) && !x.is(KeyReadBeforeDecision) {
		return
	}
	t := *s
	t.budgets.regroups--
	t.approval.regrouped = true
	x.emitFault(&t, "update_key: principal 1 has other groups", -1)
}

// readGroups is what a node reads before it judges a decision, as in Store.Decide.
func (x *explorer) readGroups(t *state, i int) {
	a := &t.attempts[i]
	a.pc, a.groups = pcDecideRead, x.groupsOf(t, x.Checks[i].Principal)
	a.approvedBy, a.deniedBy = t.approval.approvedBy, t.approval.deniedBy
	x.emit(t, "Decide: reads the decisions and the groups", i)
}

// isStale reports whether what the node read has changed.
func (x *explorer) isStale(s *state, i int) bool {
	a := &s.attempts[i]
	decisions := a.approvedBy != s.approval.approvedBy || a.deniedBy != s.approval.deniedBy
	return decisions && !x.is(DecisionsNotProved) || a.groups != x.groupsOf(s, x.Checks[i].Principal) && !x.is(GroupsNotProved)
}

// completes reports whether an approval completes the request, by what the node has read, as in
// Approval.SetStatus.
func (x *explorer) completes(s *state, i int) bool {
	a := &s.attempts[i]
	people := []groups{}
	for by := range s.approval.groups {
		switch {
		case a.approvedBy&(1<<by) == 0:
		case x.is(GroupsOfNow):
			people = append(people, x.groupsOf(s, by))
		default:
			people = append(people, s.approval.groups[by])
		}
	}
	return x.match(append(people, a.groups))
}

// match reports whether each group has a person of its own.
func (x *explorer) match(people []groups) bool {
	all := groups(1)<<x.AsksOf - 1
	if x.is(CountedInEach) {
		var together groups
		for _, p := range people {
			together |= p
		}
		return together&all == all
	}
	if x.is(OrderOfDecisions) {
		for _, p := range people {
			left := p & all
			all &^= left & -left
		}
		return all == 0
	}
	return fill(all, people)
}

// fill tries each person for the first remaining group.
func fill(left groups, people []groups) bool {
	if left == 0 {
		return true
	}
	first := left & -left
	for i, p := range people {
		if p&first != 0 {
			others := append(append([]groups{}, people[:i]...), people[i+1:]...)
			if fill(left&^first, others) {
				return true
			}
		}
	}
	return false
}

// brokenGroups compares an approval with the people who approved, by Hall's theorem: any set of
// groups needs as many people who are in one of them.
func (x *explorer) brokenGroups(p *approval) string {
	if p.misgrouped {
		return "G13: a decision was counted for a group that its key did not have"
	}
	complete := true
	for some := range groups(1) << x.AsksOf {
		people := 0
		for by, of := range p.groups {
			if p.approvedBy&(1<<by) != 0 && of&some != 0 {
				people++
			}
		}
		complete = complete && people >= bits.OnesCount8(uint8(some))
	}
	switch {
	case p.at != 0 && !complete:
		return "G13: an approval lacks somebody of a group that it asks for"
	case p.at == 0 && complete:
		return "G13: an approval has all that it asks for, and is not approved"
	}
	return ""
}
