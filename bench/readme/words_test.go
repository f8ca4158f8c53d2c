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
	err := filepath.WalkDir(root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if strings.HasPrefix(name, ".") && path != root() || slices.Contains(tests, name) {
				return filepath.SkipDir
			}
			return nil
		}
		pattern := decides[filepath.Ext(name)]
		if pattern == nil || strings.Contains(name, "_test.") || strings.Contains(name, ".test.") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(root(), path)
		for i, line := range bytes.Split(content, []byte("\n")) {
			if pattern.Match(line) && excepted[filepath.ToSlash(within)] == "" {
				t.Errorf("%s:%d decides by words: %s", within, i+1, bytes.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
