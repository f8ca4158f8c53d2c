package deploy_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a reader can take in at once.
const (
	maxFileLines     = 400
	maxTestFileLines = 600
	maxFuncLines     = 70
)

// source is one Go file of the module that was written by hand.
type source struct {
	path    string
	content []byte
	fset    *token.FileSet
	file    *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// walk visits the files of the module, in paths relative to its root. What
// tests read, tools build and other modules hold is left out.
func walk(t *testing.T, visit func(path string, content []byte)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".bin", ".spendgate", "testdata", "deploy/lint"}, path) || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(filepath.Join("..", path))
		if err == nil {
			visit(path, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(path string, content []byte) {
		if filepath.Ext(path) != ".go" {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, content, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(file) {
			all = append(all, source{path, content, fset, file})
		}
	})
	if len(all) == 0 {
		t.Fatal("no Go files found")
	}
	return all
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		limit := maxFileLines
		if s.isTest() {
			limit = maxTestFileLines
		}
		if lines := bytes.Count(s.content, []byte("\n")); lines > limit {
			t.Errorf("%s has %d lines, more than %d", s.path, lines, limit)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if lines := codeLines(s, f); lines > maxFuncLines {
				t.Errorf("%s: %s has %d lines, more than %d", s.path, f.Name.Name, lines, maxFuncLines)
			}
		}
	}
}

// codeLines counts the lines of a function's body that are not comments alone.
func codeLines(s source, f *ast.FuncDecl) int {
	first := s.fset.Position(f.Body.Lbrace).Line
	last := s.fset.Position(f.Body.Rbrace).Line
	count := 0
	for _, line := range bytes.Split(s.content, []byte("\n"))[first:last] {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
			count++
		}
	}
	return count - 1 // the closing brace
}

// A package named for no purpose collects what has none.
func TestPackagesAreNamedForAPurpose(t *testing.T) {
	banned := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib", "core", "types"}
	for _, s := range sources(t) {
		if name := strings.TrimSuffix(s.file.Name.Name, "_test"); slices.Contains(banned, name) {
			t.Errorf("%s: package %s says nothing", s.path, name)
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	documented := make(map[string]bool)
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		dir := filepath.Dir(s.path)
		documented[dir] = documented[dir] || s.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: the package has no doc comment", dir)
		}
	}
}

// A panic is for what cannot happen; its text says so to whoever sees it.
func TestPanicsAreBugs(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" && !saysBug(call.Args[0]) {
				t.Errorf("%s: panic without BUG:", s.fset.Position(call.Pos()))
			}
			return true
		})
	}
}

// saysBug reports whether the first string within the expression, which may
// be a call of Sprintf or a sum, starts with BUG:.
func saysBug(e ast.Expr) bool {
	var first string
	ast.Inspect(e, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && first == "" {
			first = literal.Value
		}
		return first == ""
	})
	return strings.HasPrefix(strings.Trim(first, "\"`"), "BUG:")
}

// The source works wherever it is cloned: it names no folder of the machine
// on which it was written.
func TestNoPathsOfAMachine(t *testing.T) {
	foreign := regexp.MustCompile(`/(home|Users)/[A-Za-z0-9]|/root/[A-Za-z0-9.]`)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	walk(t, func(path string, content []byte) {
		if bytes.IndexByte(content, 0) >= 0 {
			return // not text
		}
		if found := foreign.Find(content); found != nil {
			t.Errorf("%s names %s...", path, found)
		}
		// A clone in /app or the like proves nothing.
		if strings.Count(root, "/") > 1 && bytes.Contains(content, []byte(root+"/")) {
			t.Errorf("%s names %s, where this clone is", path, root)
		}
	})
}
