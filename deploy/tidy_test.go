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
	"unicode/utf8"

	"spendgate/bench/must"
)

// source is one Go file of the module that was written by hand.
type source struct {
	path    string
	content []byte
	fset    *token.FileSet
	file    *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// walk visits the files of the module, in paths relative to its root, except test
// data, build output and other modules.
func walk(t *testing.T, visit func(path string, content []byte)) {
	t.Helper()
	must.Do(t, fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
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
	}))
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(path string, content []byte) {
		if filepath.Ext(path) != ".go" {
			return
		}
		fset := token.NewFileSet()
		file := must.Get(parser.ParseFile(fset, path, content, parser.ParseComments))(t)
		if !ast.IsGenerated(file) {
			all = append(all, source{path, content, fset, file})
		}
	})
	if len(all) == 0 {
		t.Fatal("no Go files found")
	}
	return all
}

// A panic is only for what cannot happen, and its text starts with BUG:.
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

// The linter reads the main module; files of the others have the same bounds.
func TestSizesInOtherModules(t *testing.T) {
	var modules []string
	walk(t, func(path string, _ []byte) {
		if dir := strings.TrimSuffix(path, "go.mod"); dir != path && dir != "" {
			modules = append(modules, dir)
		}
	})
	if len(modules) == 0 {
		t.Fatal("no other modules found")
	}
	for _, s := range sources(t) {
		if !slices.ContainsFunc(modules, func(dir string) bool { return strings.HasPrefix(s.path, dir) }) {
			continue
		}
		n := 0
		for line := range strings.Lines(string(s.content)) {
			if n++; utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 140 {
				t.Errorf("%s:%d has more than 140 columns", s.path, n)
			}
		}
		if n > 400 {
			t.Errorf("%s has %d lines, more than 400", s.path, n)
		}
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
	private := regexp.MustCompile(`/(home|Users)/[A-Za-z0-9]|/root/[A-Za-z0-9.]`)
	root := must.Get(filepath.Abs(".."))(t)
	walk(t, func(path string, content []byte) {
		if bytes.IndexByte(content, 0) >= 0 {
			return // not text
		}
		if found := private.Find(content); found != nil {
			t.Errorf("%s names %s...", path, found)
		}
		// A clone in /app or the like could be named by chance.
		if strings.Count(root, "/") > 1 && bytes.Contains(content, []byte(root+"/")) {
			t.Errorf("%s names %s, where this clone is", path, root)
		}
	})
}
