package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// sources returns what the files of the patterns have.
func sources(t *testing.T, patterns ...string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			all.Write(text)
		}
	}
	return all.String()
}

// Everything in the page's comparison exists in each language.
func TestSideBySide(t *testing.T) {
	page := sources(t, "../../docs/clients/http.md")
	_, table, _ := strings.Cut(page, "## Side by side\n")
	table, _, _ = strings.Cut(table, "\n## ")
	name := regexp.MustCompile("`(?:Gate\\.|with gate\\.)?([A-Za-z_]+)(?:\\(.*?\\))?`")
	languages := []struct{ code, defines string }{
		{sources(t, "../../hotpath/client/*.go"), `(?m)^(func (\([^)]*\) )?|type )NAME[( ]`},
		{sources(t, "python/src/spendgate/*.py") + "\nclass Decimal", `(?m)^ *(async )?(def |class |)NAME( = |\(|$)`},
		{sources(t, "typescript/src/*.ts"), `(?m)^ *(export |async |class |function |get |\*)*NAME(<.*>)?( extends|[:(])`},
	}
	var rows int
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if len(cells) != 5 || !strings.Contains(line, "`") {
			continue
		}
		rows++
		for i, l := range languages {
			for _, found := range name.FindAllStringSubmatch(cells[2+i], -1) {
				if !regexp.MustCompile(strings.Replace(l.defines, "NAME", found[1], 1)).MatchString(l.code) {
					t.Errorf("%q: %s is not there", strings.TrimSpace(cells[0]), found[1])
				}
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows", rows)
	}
}
