package grants

import "testing"

func scenarios() map[string]Model {
	one, wide := terms{adds: 1, until: windowed}, terms{adds: 1, until: ticks}
	asks := terms{adds: 1, until: windowed, asks: true}
	all := make(map[string]Model)
	for _, m := range []Model{
		{Name: "a grant that is revoked", Limits: [2]uint8{0, 0}, Grants: [most]terms{one}, Revokes: true},
		{Name: "two grants", Limits: [2]uint8{0, 0}, Grants: [most]terms{one, one}, Revokes: true, Alone: true},
		{Name: "a grant that ends", Limits: [2]uint8{1, 1}, Grants: [most]terms{{adds: 1, until: 1}}, Ticks: 2},
		{Name: "a grant after its window", Limits: [2]uint8{0, 0}, Grants: [most]terms{wide}, Ticks: 2},
		{Name: "a grant that waits", Limits: [2]uint8{0, 0}, Grants: [most]terms{asks}, Revokes: true},
		{Name: "a granter who loses the right", Limits: [2]uint8{0, 0}, Grants: [most]terms{one}, Key: true, Alone: true},
		{Name: "a lower limit", Limits: [2]uint8{1, 0}, Grants: [most]terms{one}, Posts: true, Revokes: true, Alone: true},
		{Name: "another counter", Limits: [2]uint8{0, 0}, Apart: true, Grants: [most]terms{one}, Posts: true, Revokes: true, Alone: true},
		{Name: "too many grants", Limits: [2]uint8{0, 0}, Grants: [most]terms{one, asks}, Revokes: true, Alone: true, Most: 1},
	} {
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

// TestMutations: every missing defence is detected.
func TestMutations(t *testing.T) {
	for _, c := range []struct {
		name     string
		mutation Mutation
		scenario string
		breaks   promise
	}{
		{"StopsUncompared", StopsUncompared, "a grant that is revoked", passedAbove},
		{"StopsUncompared, two", StopsUncompared, "two grants", passedAbove},
		{"StopsUncompared, the right", StopsUncompared, "a granter who loses the right", passedAbove},
		{"GrantsKept", GrantsKept, "a grant that is revoked", passedAbove},
		{"GrantsKept, the right", GrantsKept, "a granter who loses the right", passedAbove},
		{"StopUnlocked", StopUnlocked, "a grant that is revoked", passedAbove},
		{"KeyNoStop", KeyNoStop, "a granter who loses the right", passedAbove},
		{"NotRaised", NotRaised, "a grant that is revoked", refusedInVain},
		{"EndByNow", EndByNow, "a grant that ends", derivedOtherwise},
		{"AnyWindow", AnyWindow, "a grant after its window", passedAbove},
		{"AnyCounter", AnyCounter, "another counter", passedAbove},
		{"PendingCounts", PendingCounts, "a grant that waits", passedAbove},
		{"Restored", Restored, "a granter who loses the right", passedAbove},
		{"SeenIgnored", SeenIgnored, "too many grants", tooMany},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, known := scenarios()[c.scenario]
			m.Mutation = c.mutation
			if r := m.Explore(); !known || r.Violation != promises[c.breaks] {
				t.Errorf("not caught: %s", r)
			} else {
				t.Log(r)
			}
		})
	}
}
