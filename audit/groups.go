package audit

import (
	"slices"

	"spendgate/audit/spend"
)

// matching assigns people to the entries of an approval's groups: each person to one
// entry at most, whichever lets most of them count (S79).
type matching struct {
	from   []spend.GroupRequired
	fits   [][]int // the entries that each person may count for
	of     []int   // the entry that each person counts for; -1 for none
	filled []int   // how many count for each entry
}

func newMatching(from []spend.GroupRequired) *matching {
	return &matching{from: from, filled: make([]int, len(from))}
}

// inGroup reports whether one of the groups is that group.
func inGroup(groups []string, group string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return spend.SameName(g, group) })
}

// counts reports whether somebody in these groups counts for the entry.
func counts(groups []string, entry *spend.GroupRequired) bool {
	return slices.ContainsFunc(entry.Groups(), func(asked string) bool { return inGroup(groups, asked) })
}

// add takes one more person, and reports whether one more counts than before.
func (m *matching) add(groups []string) bool {
	var fits []int
	for e := range m.from {
		if counts(groups, &m.from[e]) {
			fits = append(fits, e)
		}
	}
	m.fits, m.of = append(m.fits, fits), append(m.of, -1)
	return m.place(len(m.of)-1, make([]bool, len(m.from)))
}

// place finds an entry for a person, and for whoever has to give way other ones.
func (m *matching) place(person int, tried []bool) bool {
	for _, e := range m.fits[person] {
		if tried[e] {
			continue
		}
		tried[e] = true
		if m.filled[e] < m.from[e].Required {
			m.filled[e]++
			m.of[person] = e
			return true
		}
		for other, at := range m.of {
			if at == e && m.place(other, tried) {
				m.of[person] = e
				return true
			}
		}
	}
	return false
}

// counted is how many people count for an entry.
func (m *matching) counted() (n int) {
	for _, filled := range m.filled {
		n += filled
	}
	return n
}

// missing returns how many people of groups are missing, and how many more of any group.
func (m *matching) missing(asked *spend.ApprovalRequest) (ofGroups, anybody int) {
	anybody = asked.Anybody()
	return asked.Required - anybody - m.counted(), max(0, anybody-(len(m.of)-m.counted()))
}

// broughtForward reports whether one more person with these groups makes fewer people missing.
func (m *matching) broughtForward(asked *spend.ApprovalRequest, groups []string) bool {
	ofGroups, anybody := m.missing(asked)
	m.add(groups)
	lessOfGroups, lessAnybody := m.missing(asked)
	return lessOfGroups+lessAnybody < ofGroups+anybody
}

// BroughtForward reports whether the approval of a person with these groups makes fewer people missing, or completes what nobody is
// missing of since another approval counts no more.
func (a *Approval) BroughtForward(groups []string) bool {
	return a.Missing().People() == 0 || a.matched().broughtForward(a.Check.Approval, groups)
}

// matched matches the people who approved with the groups.
func (a *Approval) matched() *matching {
	m := newMatching(a.Check.Approval.From)
	for i := range a.Decisions {
		if a.Decisions[i].Approves && !a.Decisions[i].Void {
			m.add(a.Decisions[i].Groups)
		}
	}
	return m
}

// Missing says what an approval lacks.
type Missing struct {
	OfGroups int   // people
	Anybody  int   // people besides
	Of       []int // of each entry of from, how many more would count; in all they may be more than OfGroups
}

// People is how many are missing in all.
func (m Missing) People() int { return m.OfGroups + m.Anybody }

// Missing returns what the approval lacks.
func (a *Approval) Missing() (lacks Missing) {
	return missingOf(a.Check.Approval, a.matched)
}

// missingOf returns what is lacking of the request, by the people who count so far.
func missingOf(asked *spend.ApprovalRequest, matched func() *matching) (lacks Missing) {
	lacks.OfGroups, lacks.Anybody = matched().missing(asked)
	for _, entry := range asked.From {
		m, more := matched(), 0
		for m.add(entry.Groups()[:1]) {
			more++
		}
		lacks.Of = append(lacks.Of, more)
	}
	return lacks
}

// Completes reports whether the decision completes what is asked, given the decisions so far.
func (a *Approval) Completes(d ApprovalDecisionRequest) bool {
	if !d.Approves {
		return false
	}
	m := a.matched()
	m.add(d.Groups)
	ofGroups, anybody := m.missing(a.Check.Approval)
	return ofGroups == 0 && anybody == 0
}

// MayDecide reports whether a person with these groups is among those who are asked.
func MayDecide(asked *spend.ApprovalRequest, groups []string) bool {
	return asked.Anybody() > 0 || slices.ContainsFunc(asked.From, func(g spend.GroupRequired) bool { return counts(groups, &g) })
}
