package postgres

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spendgate/audit/postgres/snapshot"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

var writeSchema = flag.Bool("write-schema", false, "write schema.txt instead of comparing with it")

// TestMadeSchema holds what verifications expect of the schema to what the
// migrations make.
func TestMadeSchema(t *testing.T) {
	url := fleet.TestSchema(t)
	open(t, url, true)
	statement(t, url, "SELECT make_partition('2001-01-01'), close_day('2001-01-01')")
	s := must.Get(snapshot.Open(t.Context(), url, 1))(t)
	defer s.Close()
	found, _, err := s.Schema(t.Context())
	must.Do(t, err)
	var lines []string
	day := regexp.MustCompile(`checks_\d{8}`)
	for _, o := range found {
		if name := day.ReplaceAllString(o.Name, "checks_DAY"); name == o.Name || strings.Contains(o.Name, "checks_20010101") {
			lines = append(lines, name+"\t"+o.Definition+"\n")
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	if *writeSchema {
		must.Do(t, os.WriteFile("snapshot/schema.txt", []byte(got), 0o644))
		return
	}
	if got != string(must.Get(os.ReadFile("snapshot/schema.txt"))(t)) {
		t.Error("snapshot/schema.txt is not what the migrations make: go test ./audit/postgres -run TestMadeSchema -write-schema")
	}
}
