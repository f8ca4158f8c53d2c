package readme_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// TestIndexOfErrors: docs/reference/errors.md has the codes of errors that the service returns, each with the clauses
// that name it, or what it says itself.
func TestIndexOfErrors(t *testing.T) {
	const page = "docs/reference/errors.md"
	text := readPage(t, page)
	head, listed, _ := strings.Cut(text, "| --- | --- | --- |\n")
	want := errorRows(t)
	if *writeIndex {
		must.Do(t, os.WriteFile(filepath.Join(root(), page), []byte(head+"| --- | --- | --- |\n"+want), 0o644))
	} else if listed != want {
		t.Errorf("%s is not what the service returns; -write-index writes it", page)
	}
}

// errorRows returns a row for each code, sorted.
func errorRows(t *testing.T) string {
	t.Helper()
	clauses := make(map[string][]string) // by the code that they name
	for _, name := range []string{"contract.md", "payments.md", "freezes.md"} {
		for _, clause := range regexp.MustCompile(`(?m)^#+ `).Split(readPage(t, "docs/reference/"+name), -1) {
			title, _, _ := strings.Cut(clause, "\n")
			link := "[" + plainTitle(title) + "](" + name + "#" + anchorOf(title) + ")"
			if number := regexp.MustCompile(`^<a id="(s\d+)"></a>(S\d+)`).FindStringSubmatch(clause); number != nil {
				link = "[" + number[2] + "](contract.md#" + number[1] + ")"
			}
			for _, code := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(clause, -1) {
				if !slices.Contains(clauses[code[1]], link) {
					clauses[code[1]] = append(clauses[code[1]], link)
				}
			}
		}
	}
	errors := returnedErrors(t)
	var rows strings.Builder
	for _, code := range slices.Sorted(maps.Keys(errors)) {
		e := errors[code]
		where := strings.Join(clauses[code], ", ")
		if where == "" {
			where = e.message
		}
		slices.Sort(e.statuses)
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", code, strings.Join(slices.Compact(e.statuses), ", "), where)
	}
	return rows.String()
}

// returnedError is what the service's source says of a code.
type returnedError struct {
	statuses []string
	message  string // of one of them
}

// returnedErrors reads the refusals of hotpath/httpapi.
func returnedErrors(t *testing.T) map[string]*returnedError {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(root(), "hotpath/httpapi/*.go")))(t)
	names := make(map[string]string) // of constants
	var literals [][]ast.Expr
	for _, path := range files {
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.ValueSpec:
				if len(x.Names) == 1 && len(x.Values) == 1 && strings.HasPrefix(x.Names[0].Name, "code") {
					names[x.Names[0].Name] = textOf(x.Values[0], nil)
				}
			case *ast.CompositeLit:
				if nameOf(x.Type) == "refusal" && len(x.Elts) == 3 && !strings.HasSuffix(path, "_test.go") {
					literals = append(literals, x.Elts)
				}
			case *ast.CallExpr: // says[*SomeError](409, "code"), whose message is the error's
				if of, ok := x.Fun.(*ast.IndexExpr); ok && nameOf(of.X) == "says" && len(x.Args) == 2 {
					literals = append(literals, append(x.Args, &ast.BasicLit{Kind: token.STRING, Value: `""`}))
				}
			}
			return true
		})
	}
	errors := make(map[string]*returnedError)
	for _, elements := range literals {
		code, status := textOf(elements[1], names), textOf(elements[0], names)
		if code == "" {
			continue // of another refusal
		}
		if errors[code] == nil {
			errors[code] = &returnedError{}
		}
		if errors[code].message == "" {
			errors[code].message = textOf(elements[2], names)
		}
		errors[code].statuses = append(errors[code].statuses, status)
	}
	if len(errors) < 50 {
		t.Errorf("only %d codes", len(errors))
	}
	return errors
}

// textOf returns a literal, or what a constant stands for.
func textOf(e ast.Expr, names map[string]string) string {
	switch x := e.(type) {
	case *ast.Ident:
		return names[x.Name]
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil {
			return text
		}
		return x.Value
	}
	return ""
}
