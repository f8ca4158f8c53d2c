package deploy_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// definitions are the pages that define what others cite by number.
var definitions = map[string]string{
	"S": "docs/reference/contract.md",
	"G": "docs/reference/guarantees.md",
	"F": "docs/internals/protocol.md",
	"V": "docs/internals/counts.md",
	"E": "docs/internals/events.md",
	"P": "docs/internals/gateway.md",
}

// TestCitations reports numbers that are cited and not defined, or defined
// twice: S, G, F and V numbers everywhere, numbers of any other letter in
// comments and pages. P50, P90 and P99 are percentiles.
func TestCitations(t *testing.T) {
	defined := map[string]bool{"P50": true, "P90": true, "P99": true}
	anchor := regexp.MustCompile(`<a id="([sg])(\d+)"></a>([SG]\d+)`)
	row := regexp.MustCompile(`(?m)^\| ([EFPV]\d+) \|`)
	for letter, page := range definitions {
		for _, found := range anchor.FindAllStringSubmatch(readFile(t, page), -1) {
			number := strings.ToUpper(found[1]) + found[2]
			if strings.ToUpper(found[1]) != letter {
				continue // defined by the same page, under its own letter
			}
			if defined[number] || number != found[3] {
				t.Errorf("%s: the anchor of %s stands twice, or before %s", page, number, found[3])
			}
			defined[number] = true
		}
		for _, found := range row.FindAllStringSubmatch(readFile(t, page), -1) {
			if defined[found[1]] {
				t.Errorf("%s: the row of %s stands twice", page, found[1])
			}
			defined[found[1]] = true
		}
	}
	cited := regexp.MustCompile(`(?:^|[^0-9A-Za-z_.%+/=\\-])([SGFV]\d{1,2})(?:\b|_)`)
	other := regexp.MustCompile(`(?:^|[ (\[|,])([A-EH-RTUW-Z]\d{1,2})(?:[ ),;:.\]]|$)`)
	count := 0
	walk(t, func(path string, content []byte) {
		if !slices.Contains([]string{".go", ".md", ".sql", ".sh", ".yaml", ".patch", ".py", ""}, filepath.Ext(path)) {
			return
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			var found [][][]byte
			if bytes.ContainsAny(line, "SGFV") { // the expression is slow
				found = cited.FindAllSubmatch(line, -1)
			}
			text := line
			if filepath.Ext(path) == ".go" {
				_, text, _ = bytes.Cut(line, []byte("//"))
			}
			found = append(found, other.FindAllSubmatch(text, -1)...)
			for _, one := range found {
				count++
				if number := string(one[1]); !defined[number] {
					t.Errorf("%s:%d cites %s, which no page defines", path, i+1, number)
				}
			}
		}
	})
	if count < 500 {
		t.Errorf("only %d citations found", count)
	}
}

// TestNumbersAreShown reports guarantees that no test cites, and rows of the protocol that neither a test nor a
// proof cites.
func TestNumbersAreShown(t *testing.T) {
	shown, provoked := make(map[string]bool), make(map[string]bool)
	number := regexp.MustCompile(`\b[FG]\d+`)
	walk(t, func(path string, content []byte) {
		test := strings.HasSuffix(path, "_test.go")
		if !test && !strings.Contains(path, "/audittest/") && !strings.Contains(path, "bench/") {
			return
		}
		for _, found := range number.FindAll(content, -1) {
			provoked[string(found)] = true
			shown[string(found)] = shown[string(found)] || test
		}
	})
	for letter, numbers := range map[string]struct {
		of    map[string]bool
		least int
		form  string
	}{
		"F": {provoked, 60, `(?m)^\| (F\d+) \|`},
		"G": {shown, 17, `(?m)^## <a id="g\d+"></a>(G\d+)`},
	} {
		found := regexp.MustCompile(numbers.form).FindAllStringSubmatch(readFile(t, definitions[letter]), -1)
		for _, one := range found {
			if !numbers.of[one[1]] {
				t.Errorf("no test cites %s", one[1])
			}
		}
		if len(found) < numbers.least {
			t.Errorf("only %d numbers %s", len(found), letter)
		}
	}
}

var (
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9_]*\\*?)((?:/[^`]+)?)`")
	namedMutant = regexp.MustCompile("mutants? `([a-z-]+)`")
)

// TestNamedTestsExist reports tests, subtests and mutants that a page names
// and that do not exist.
func TestNamedTestsExist(t *testing.T) {
	dirs := testFunctions(t)
	walk(t, func(file string, content []byte) {
		if filepath.Ext(file) != ".md" {
			return
		}
		for _, found := range namedTest.FindAllSubmatch(content, -1) {
			if err := findTest(t, dirs, string(found[1]), string(found[2])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		for _, found := range namedMutant.FindAllSubmatch(content, -1) {
			if _, err := os.Stat(filepath.Join("../bench/chaos/testdata/mutants", string(found[1])+".patch")); err != nil {
				t.Errorf("%s names the mutant %s: %v", file, found[1], err)
			}
		}
	})
}

// testFunctions returns the folders in which tests are, by their names.
func testFunctions(t *testing.T) map[string][]string {
	t.Helper()
	dirs := make(map[string][]string)
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.isTest() && f.Recv == nil {
				dirs[f.Name.Name] = append(dirs[f.Name.Name], path.Dir(s.path))
			}
		}
	}
	return dirs
}

// findTest looks for a test, whose name may end with *, and for the names of
// its subtests among the strings in its folder.
func findTest(t *testing.T, dirs map[string][]string, name, subtests string) error {
	t.Helper()
	var in []string
	prefix, many := strings.CutSuffix(name, "*")
	for test, folders := range dirs {
		if test == name || many && strings.HasPrefix(test, prefix) {
			in = append(in, folders...)
		}
	}
	if len(in) == 0 {
		return fmt.Errorf("there is no test %s", name)
	}
	for _, subtest := range strings.FieldsFunc(subtests, func(r rune) bool { return r == '/' }) {
		literal := `"` + strings.ReplaceAll(subtest, "_", " ")
		if !slices.ContainsFunc(in, func(dir string) bool { return strings.Contains(testsOf(t, dir), literal) }) {
			return fmt.Errorf("%s has no subtest %q", name, subtest)
		}
	}
	return nil
}

// testsOf returns the test files of a folder, joined.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join("..", dir, "*_test.go")))(t)
	var joined strings.Builder
	for _, file := range files {
		content := must.Get(os.ReadFile(file))(t)
		joined.Write(content)
	}
	return joined.String()
}

// readFile returns a file of the module by its path from the root.
func readFile(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join("..", path)))(t)
	return string(content)
}
