package deploy_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// TestPersonalData compares docs/operate/personal-data.md with the schema: each table that has columns of
// text has a row that names all of them.
func TestPersonalData(t *testing.T) {
	rows := make(map[string]string)
	page := readFile(t, "docs/operate/personal-data.md")
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*)$").FindAllStringSubmatch(page, -1) {
		rows[row[1]] = row[2]
	}
	files := must.Get(filepath.Glob("../audit/postgres/migrations/*.sql"))(t)
	var schema strings.Builder
	for _, file := range files {
		schema.WriteString(readFile(t, "audit/postgres/migrations/"+filepath.Base(file)))
	}
	tables := regexp.MustCompile(`(?s)CREATE TABLE (\w+) \(\n(.*?)\n\)`).FindAllStringSubmatch(schema.String(), -1)
	if len(tables) < 10 {
		t.Fatalf("%d tables", len(tables))
	}
	for _, table := range tables {
		for _, column := range regexp.MustCompile(`(?m)^\s+(\w+)\s+(?:text|jsonb)\b`).FindAllStringSubmatch(table[2], -1) {
			if !strings.Contains(rows[table[1]], "`"+column[1]+"`") {
				t.Errorf("docs/operate/personal-data.md does not say what is in %s.%s, and for how long", table[1], column[1])
			}
		}
	}
}
