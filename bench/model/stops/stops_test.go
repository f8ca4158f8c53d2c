package stops

import (
	"testing"
)

func scenarios() map[string]Model {
	all := make(map[string]Model)
	for _, m := range []Model{
		{Name: "checks", Requests: [requests]kind{asks, asks}},
		{Name: "a repetition", Requests: [requests]kind{repeats, asks}},
		{Name: "a redemption", Requests: [requests]kind{redeems, repeats}},
		{Name: "unread", Requests: [requests]kind{unread, redeems}},
	} {
		all[m.Name] = m
		m.Name, m.Key = m.Name+" of a key", true
		all[m.Name] = m
	}
	return all
}

// TestProtocol searches every scenario completely.
func TestProtocol(t *testing.T) {
	for name, m := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := m.Explore()
			if r.Violation != "" || !r.Complete {
				t.Error(r)
			}
			t.Log(r)
		})
	}
}

// TestMutations: every missing defence is detected, of a freeze and of a key where both rest on it.
func TestMutations(t *testing.T) {
	for _, c := range []struct {
		name     string
		mutation Mutation
		scenario string
	}{
		{"CommitUncompared", CommitUncompared, "checks"},
		{"CommitUncompared, of a key", CommitUncompared, "checks of a key"},
		{"CommitUncompared, redeemed", CommitUncompared, "a redemption"},
		{"CommitUncompared, redeemed, of a key", CommitUncompared, "a redemption of a key"},
		{"StopUnlocked", StopUnlocked, "checks"},
		{"StopUnlocked, redeemed", StopUnlocked, "a redemption of a key"},
		{"NotRaised", NotRaised, "a repetition"},
		{"NotRaised, of a key", NotRaised, "a repetition of a key"},
		{"NotWaited", NotWaited, "checks"},
		{"NotWaited, of a key", NotWaited, "checks of a key"},
		{"AnsweredUnproved", AnsweredUnproved, "checks"},
		{"AnsweredUnproved, redeemed", AnsweredUnproved, "a redemption"},
		{"ReplayUnproved", ReplayUnproved, "a repetition"},
		{"ReplayUnproved, of a key", ReplayUnproved, "a repetition of a key"},
		{"LabelledAfterward", LabelledAfterward, "a repetition"},
		{"UnreadAlways", UnreadAlways, "unread of a key"},
		{"RestoredByKey", RestoredByKey, "a repetition of a key"},
		{"RestoredByKey, redeemed", RestoredByKey, "a redemption of a key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, known := scenarios()[c.scenario]
			m.Mutation = c.mutation
			if r := m.Explore(); !known || r.Violation == "" {
				t.Errorf("not caught: %s", r)
			} else {
				t.Log(r)
			}
		})
	}
}
