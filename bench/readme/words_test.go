package readme_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// TestNothingDecidesByWords: a message or a note is for people. A program looks at the code of an error
// and at its members.
func TestNothingDecidesByWords(t *testing.T) {
	const text = `(\.Error\(\)|\.(Message|Note)\b)`
	decides := map[string]*regexp.Regexp{
		".go": regexp.MustCompile(`(strings|bytes)\.(Contains|HasPrefix|HasSuffix|EqualFold|Cut\w*|Index|Trim(Pre|Suf)fix)\(.*` + text +
			`|\.(Match|MatchString|Find\w*)\(.*` + text + `|` + text + ` (==|!=) "[^"]`),
		".py": regexp.MustCompile(`\.(message|note)\.(startswith|endswith|find|index)\(|\bin \w+\.(message|note)\b` +
			`|re\.\w+\(.*\.(message|note)\b|str\((e|err|error|problem)\)\.|\bin str\(`),
	}
	script := regexp.MustCompile(`\.(message|note)\??\.(startsWith|endsWith|includes|match|search|indexOf)\(|\.test\([^)]*\.(message|note)\b`)
	for _, ext := range []string{".js", ".mjs", ".ts"} {
		decides[ext] = script
	}
	tests := []string{"node_modules", "tests", "test", "audittest", "judge"} // these judge what texts say
	excepted := map[string]string{
		"cmd/spendgate/policyfile/policyfile.go": "the YAML decoder says the line only in its text",
		"cmd/spendgate/checkreport/report.go":    "the record names the original of a duplicate only in its message",
		"audit/postgres/migrate.go":              "an error that quotes the database's URL is shortened",
	}
	eachLine(t, tests, func(path string, number int, line []byte) {
		pattern := decides[filepath.Ext(path)]
		if pattern == nil || strings.Contains(path, "_test.") || strings.Contains(path, ".test.") || excepted[path] != "" {
			return
		}
		if pattern.Match(line) {
			t.Errorf("%s:%d decides by words: %s", path, number, line)
		}
	})
}

// eachLine visits each line of the tree, but for those below folders of some names.
func eachLine(t *testing.T, without []string, visit func(path string, number int, line []byte)) {
	t.Helper()
	must.Do(t, filepath.WalkDir(root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && path != root() || slices.Contains(without, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".js", ".md", ".mjs", ".py", ".sql", ".ts", ".yaml"}, filepath.Ext(path)) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(root(), path)
		for i, line := range bytes.Split(content, []byte("\n")) {
			visit(filepath.ToSlash(within), i+1, bytes.TrimSpace(line))
		}
		return err
	}))
}

// TestPlainWords: a text says what it means also to somebody who reads one sentence alone.
func TestPlainWords(t *testing.T) {
	unplain := regexp.MustCompile(`(?i)\b(like` + `wise|by t` + `hen|as e` + `ver|all the s` + `ame)\b`)
	eachLine(t, []string{"node_modules", "testdata", "vendor"}, func(path string, number int, line []byte) {
		if unplain.Match(line) {
			t.Errorf("%s:%d: %s", path, number, line)
		}
	})
}
