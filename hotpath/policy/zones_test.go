package policy

import (
	"slices"
	"testing"
)

// Zones are alike when clocks in them always show the same, whatever it is called.
func TestZonesAlike(t *testing.T) {
	alike := zonesAlike()
	for _, names := range [][]string{
		{"UTC", "Etc/UTC", "Zulu", "Etc/UCT", "GMT", "Etc/GMT-0", "Greenwich"},
		{"Asia/Calcutta", "Asia/Kolkata"},
		{"America/New_York", "US/Eastern"},
		{"Africa/Nairobi", "Africa/Asmera"},
		{"Asia/Tokyo", "Japan"},
	} {
		for _, name := range names {
			if !slices.Contains(alike[names[0]], name) {
				t.Errorf("%s and %s differ", names[0], name)
			}
		}
	}
	for _, names := range [][2]string{
		{"UTC", "Africa/Abidjan"},
		{"UTC", "Europe/London"},
		{"UTC", "Etc/GMT+1"},
		{"Etc/GMT+5", "Etc/GMT-5"},
		{"Europe/Berlin", "Europe/Paris"},
		{"Asia/Tokyo", "Asia/Seoul"},
	} {
		if slices.Contains(alike[names[0]], names[1]) || alike[names[1]] == nil {
			t.Errorf("%s and %s are alike", names[0], names[1])
		}
	}
}
