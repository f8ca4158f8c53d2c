package policy

import (
	"archive/zip"
	"crypto/sha256"
	_ "embed" // the time zones
	"encoding/hex"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"
)

// zoneinfo has the zones of the IANA database; `make zones` renews it. Windows must not differ between
// nodes, so neither the machine's copy is read, which time.LoadLocation prefers, nor the copy in the Go
// release. The archive's comment has the release and the origin.
//
//go:embed zoneinfo.zip
var zoneinfo string

var zoneFiles = sync.OnceValue(func() *zip.Reader {
	files, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		panic("BUG: the embedded time zones cannot be read: " + err.Error())
	}
	return files
})

// ZoneData names the time zones of this build.
type ZoneData struct {
	Release string // of the IANA database, and the first digits of the data's SHA-256: 2026f-0797770c8139
	Origin  string // of the data: "IANA 2026f, Debian tzdata 2026f-0+deb12u1"
}

var zoneData = sync.OnceValue(func() ZoneData {
	origin := zoneFiles().Comment
	release, _, _ := strings.Cut(strings.TrimPrefix(origin, "IANA "), ",")
	sum := sha256.Sum256([]byte(zoneinfo))
	return ZoneData{release + "-" + hex.EncodeToString(sum[:6]), origin}
})

// Zones returns which time zones this build has. They are read and hashed once: each probe of readiness asks.
func Zones() ZoneData { return zoneData() }

const utc = "UTC"

// LoadZone returns the zone of exactly that name, UTC when it is empty.
func LoadZone(name string) (*time.Location, error) {
	if name == "" || name == utc {
		return time.UTC, nil
	}
	data, err := fs.ReadFile(zoneFiles(), name)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, data)
}

// zonesAlike has the names of the zones that have the same rules, by each of them.
var zonesAlike = sync.OnceValue(func() map[string][]string {
	byRules := make(map[string][]string)
	for _, file := range zoneFiles().File {
		zone, err := LoadZone(file.Name)
		if err != nil {
			continue // a folder, or no zone
		}
		rules := rulesOf(zone)
		byRules[rules] = append(byRules[rules], file.Name)
	}
	alike := make(map[string][]string)
	for _, names := range byRules {
		for _, name := range names {
			alike[name] = names
		}
	}
	return alike
})

// rulesOf returns a text of the times that clocks in the zone have shown and will show, whatever these
// times are called there. The rules of the future repeat within 28 years.
func rulesOf(zone *time.Location) string {
	var rules []byte
	t, last := time.Date(1800, 1, 1, 0, 0, 0, 0, zone), 1<<20
	for !t.IsZero() && t.Year() < 2100 {
		if _, offset := t.Zone(); offset != last {
			rules = strconv.AppendInt(append(rules, ' '), t.Unix(), 10)
			rules = strconv.AppendInt(append(rules, ':'), int64(offset), 10)
			last = offset
		}
		t = nextChange(t)
	}
	return string(rules)
}
