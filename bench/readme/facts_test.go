package readme_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spendgate/bench/must"
)

const (
	runbook = "docs/operate/runbook.md"

	maintenance = "docs/operate/maintenance.md"
	budgets     = "docs/use/budgets.md"
	metrics     = "docs/operate/metrics.md"
	logs        = "docs/operate/logs.md"
	settings    = "docs/operate/settings.md"
	commands    = "docs/use/command-line.md"
)

// No example leaves a key where git would add it.
func keysAreIgnored(t *testing.T, n *node) {
	key := regexp.MustCompile(`svc_live_[0-9a-f]{32}`)
	ignored := strings.Fields(readPage(t, ".gitignore"))
	left := 0
	err := fs.WalkDir(os.DirFS(n.dir), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(ignored, path+"/"):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(filepath.Join(n.dir, path))
		if err != nil || !key.Match(content) {
			return err
		}
		left++
		if !slices.Contains(ignored, "/"+path) {
			t.Errorf("%s holds an API key, and .gitignore does not name it", path)
		}
		return nil
	})
	if err != nil || left == 0 {
		t.Errorf("%d files hold a key; the one for hosts of the tool server does: %v", left, err)
	}
}

// The settings of the table are the settings of the program.
func compareSettings(t *testing.T, n *node) {
	refusal := n.command("SPENDGATE_NO_SUCH_SETTING=1", "dev")
	_, list, found := strings.Cut(refusal, "there are SPENDGATE_... ")
	list, _, cut := strings.Cut(list, ", each also with _FILE")
	if !found || !cut {
		t.Fatalf("a misspelt setting is answered with: %s", refusal)
	}
	var documented []string
	for _, row := range rowsOf(readPage(t, settings))[1:] {
		if name, own := strings.CutPrefix(code(row[0]), "SPENDGATE_"); own { // the settings of OpenTelemetry have names of their own
			documented = append(documented, name)
		}
	}
	compareSets(t, "settings in "+settings, documented, "settings of the program", strings.Split(list, ", "))
}

// The commands of the table are those that the program has.
func compareCommands(t *testing.T, n *node) {
	var documented, has []string
	for _, row := range rowsOf(readPage(t, commands))[1:] {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			documented = append(documented, name[1])
		}
	}
	_, list, _ := strings.Cut(n.command("", "--help"), "\ncommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		has = append(has, strings.Fields(line)[0])
	}
	compareSets(t, "commands in "+commands, documented, "commands of the program", has)
}

// ofCommands begins the metrics that `audit verify` writes to a file and `probe` serves.
var ofCommands = regexp.MustCompile("^spendgate_(verify_|probe)")

// metrics.md explains metrics that a node has, or a fleet, or a command; # HELP has the others.
func compareMetrics(t *testing.T, n *node) {
	var live []string
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (spendgate_\S+)`).FindAllStringSubmatch(n.metrics(t), -1) {
		live = append(live, found[1])
	}
	var ofFleets []string // this is a single node; deploy looks at the metrics of a fleet
	for _, row := range rowsOf(section(t, metrics, "## Metrics")) {
		switch name := code(row[0]); {
		case !strings.HasPrefix(name, "spendgate_"):
		case ofCommands.MatchString(name):
			ofFleets = append(ofFleets, name)
		case strings.Contains(row[1], "Fleet only."),
			strings.Contains(row[1], "Absent until there is one.") && !slices.Contains(live, name):
			ofFleets = append(ofFleets, name)
		case !slices.Contains(live, name):
			t.Errorf("%s explains %s, which no node has", metrics, name)
		}
	}

	// Alerts and advice name the same ones, and those of gateways, which the gateway's own test looks at.
	for _, name := range regexp.MustCompile(`\bspendgate_[a-z_]+`).FindAllString(readPage(t, runbook), -1) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		ofGateways := strings.HasPrefix(name, "spendgate_gateway_")
		if !ofGateways && !slices.Contains(live, name) && !slices.Contains(live, base) && !slices.Contains(ofFleets, name) {
			t.Errorf("%s names %s, which no node has", runbook, name)
		}
	}
}

func compareSets(t *testing.T, nameA string, a []string, nameB string, b []string) {
	t.Helper()
	if len(a) == 0 || len(b) == 0 {
		t.Fatalf("%d %s, %d %s", len(a), nameA, len(b), nameB)
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			t.Errorf("%s is among the %s, not the %s", x, nameA, nameB)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			t.Errorf("%s is among the %s, not the %s", x, nameB, nameA)
		}
	}
}

// logs.md explains lines that a node logs.
func TestLogLines(t *testing.T) {
	logged := loggedLines(t)
	var explained []string
	for _, row := range rowsOf(readPage(t, logs))[1:] {
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[0], -1) {
			explained = append(explained, found[1])
		}
	}
	for _, begin := range explained {
		alike := func(line string) bool { // which may have a word put behind its text
			return strings.HasPrefix(line, begin) || strings.HasPrefix(begin, line)
		}
		if !slices.ContainsFunc(logged, alike) {
			t.Errorf("%s explains %q, which is not logged", logs, begin)
		}
	}
	if len(logged) < 40 {
		t.Errorf("only %d lines found", len(logged))
	}
}

// notOfNodes are the commands with a log of their own.
var notOfNodes = regexp.MustCompile(`^(cmd/spendgate/(mcp|gateway|probe|console)|hotpath/client/pay)(/|\.go$)`)

// loggedLines returns the messages that nodes log above debug, as the source has them.
func loggedLines(t *testing.T) (lines []string) {
	t.Helper()
	for _, dir := range []string{"audit", "cmd/spendgate", "config", "hotpath", "ratelimit"} {
		must.Do(t, fs.WalkDir(os.DirFS(root()), dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || notOfNodes.MatchString(path) {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(), path), nil, parser.SkipObjectResolution)
			if err == nil {
				ast.Inspect(file, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						if text := message(call); text != "" {
							lines = append(lines, text)
						}
					}
					return true
				})
			}
			return err
		}))
	}
	return lines
}

// message returns the text that a call logs or has logged, if it is written there.
func message(call *ast.CallExpr) (text string) {
	at := -1
	switch name, of := called(call); {
	case (of == "log" || of == "Logger") && (name == "Info" || name == "Warn" || name == "Error"):
		at = 0
	case (of == "log" || of == "Logger") && (name == "Log" || name == "LogAttrs"), name == "noteRefused":
		at = 2
	case name == "complain", name == "every", // what a task says when it fails
		name == "append" && strings.EqualFold(nameOf(call.Args[0]), "notices"):
		at = 1
	}
	if at < 0 || at >= len(call.Args) {
		return ""
	}
	ast.Inspect(call.Args[at], func(n ast.Node) bool { // of a concatenation, only the literals
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if line, err := strconv.Unquote(literal.Value); err == nil {
				text += line
			}
		}
		return true
	})
	return strings.TrimSpace(text)
}

// called returns the name of the called function, and the package or type that it belongs to.
func called(call *ast.CallExpr) (name, of string) {
	if method, ok := call.Fun.(*ast.SelectorExpr); ok {
		return method.Sel.Name, nameOf(method.X)
	}
	return nameOf(call.Fun), ""
}

func nameOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// The targets that the pages name are in the Makefile.
func TestMakeTargets(t *testing.T) {
	makefile := readPage(t, "Makefile")
	for _, page := range pages(t) {
		text := withoutBlocks(readPage(t, page))
		for _, b := range blocksOf(t, page) {
			text += regexp.MustCompile("(?m)^make ").ReplaceAllString(b.text, "`make ")
		}
		for _, found := range regexp.MustCompile("`make ([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s: there is no %s", page, found[0])
			}
		}
	}
}

// Links to files and headings have targets.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(withoutBlocks(readPage(t, page)), -1) {
			path, anchor := found[1], found[2]
			if strings.Contains(path, "://") {
				continue
			}
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(root(), target)); err != nil {
				t.Errorf("%s: link to %s: %v", page, found[0], err)
			} else if anchor != "" && !slices.Contains(anchorsOf(t, target), anchor) {
				t.Errorf("%s: %s has no heading %s", page, target, anchor)
			}
		}
	}
}

// anchorsOf returns the headings of a page as links name them, and the anchors
// that it sets itself.
func anchorsOf(t *testing.T, page string) []string {
	t.Helper()
	var anchors []string
	for _, found := range regexp.MustCompile(`<a id="([^"]+)"></a>`).FindAllStringSubmatch(readPage(t, page), -1) {
		anchors = append(anchors, found[1])
	}
	for _, found := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(withoutBlocks(readPage(t, page)), -1) {
		anchors = append(anchors, anchorOf(found[1]))
	}
	return anchors
}

// anchorOf returns the name of a heading in links.
func anchorOf(heading string) string {
	name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(name, " ", "-")
}
