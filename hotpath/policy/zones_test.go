package policy

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The zones are those of a release that is named, and no older than those of this machine.
func TestZonesAreNew(t *testing.T) {
	zones := Zones()
	named := regexp.MustCompile(`^IANA (20\d\d[a-z]+), Debian tzdata (20\d\d[a-z]+)-\S+$`).FindStringSubmatch(zones.Origin)
	if named == nil || named[1] != named[2] || !strings.HasPrefix(zones.Release, named[1]+"-") || len(zones.Release) != len(named[1])+13 {
		t.Fatalf("the time zones are %+v", zones)
	}
	source, err := os.ReadFile("/usr/share/zoneinfo/tzdata.zi")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("this machine has no tzdata")
	}
	line, _, _ := strings.Cut(string(source), "\n")
	if release, ok := strings.CutPrefix(line, "# version "); err != nil || !ok || release > named[1] {
		t.Errorf("this machine has the time zones %q (%v), newer than %s: run make zones", line, err, named[1])
	}
}

// Days of the zones whose rules changed in 2026.
func TestZonesOf2026(t *testing.T) {
	for zone, begins := range map[string][2]string{ // of 15 January and of 15 July 2027
		"America/Vancouver":   {"07:00", "07:00"},
		"Canada/Pacific":      {"07:00", "07:00"},
		"America/Edmonton":    {"06:00", "06:00"},
		"America/Inuvik":      {"06:00", "06:00"},
		"America/Yellowknife": {"06:00", "06:00"},
		"Canada/Mountain":     {"06:00", "06:00"},
		"America/Winnipeg":    {"05:00", "05:00"},
		"America/Rainy_River": {"05:00", "05:00"},
		"Canada/Central":      {"05:00", "05:00"},
		"America/Havana":      {"04:00", "04:00"},
		"Cuba":                {"04:00", "04:00"},
		"Africa/Casablanca":   {"00:00", "00:00"},
		"Africa/El_Aaiun":     {"00:00", "00:00"},
	} {
		for i, date := range []string{"2027-01-15", "2027-07-15"} {
			begin := mustTime(t, date+"T"+begins[i]+":00Z")
			for _, at := range []time.Time{begin, begin.Add(24*time.Hour - time.Millisecond)} {
				w := period{unit: daily, zone: mustZone(t, zone)}.window(at)
				if w.start != begin.UnixMilli() || w.end != begin.Add(24*time.Hour).UnixMilli() {
					t.Errorf("S33: the day in %s at %v is from %d to %d ms, want %v", zone, at, w.start, w.end, begin)
				}
			}
		}
	}
}

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
