package readme_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// block is one fenced block of a Markdown page.
type block struct {
	page     string
	line     int // of the opening fence, from 1
	language string
	text     string
	adjacent bool // nothing but blank lines between the block before and this
}

// root returns the folder of the module.
func root() string { return filepath.Join("..", "..") }

func readPage(t *testing.T, page string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(root(), page)))(t)
	return string(content)
}

// pages returns the Markdown pages of the module.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	must.Do(t, fs.WalkDir(os.DirFS(root()), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "node_modules" ||
			path != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// linked is a line that has a file of examples as a block, whose output follows.
var linked = regexp.MustCompile(`^\[[^\]]+\]\(([^)]+/examples/[^)]+)\) prints:$`)

// languages are those of files, as fenced blocks name them.
var languages = map[string]string{".go": "go", ".py": "python", ".mts": "ts"}

// blocksOf returns the fenced blocks of a page in order, and the examples that it links.
func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	var blocks []block
	var open *block
	adjacent := false
	for i, line := range strings.Split(readPage(t, page), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case open == nil && isFence:
			open = &block{page: page, line: i + 1, language: fence, adjacent: adjacent}
		case open != nil && isFence:
			blocks = append(blocks, *open)
			open, adjacent = nil, true
		case open != nil:
			open.text += line + "\n"
		case linked.MatchString(line):
			file := filepath.Join(filepath.Dir(page), linked.FindStringSubmatch(line)[1])
			blocks = append(blocks, block{page: page, line: i + 1, language: languages[filepath.Ext(file)], text: readPage(t, file)})
			adjacent = true
		case strings.TrimSpace(line) != "":
			adjacent = false
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block is not closed", page, open.line)
	}
	return blocks
}

// example has the commands, or a program, and the output if the page shows it.
type example struct {
	block
	shown *block
}

// examplesOf returns the examples of a page that a reader can paste.
func examplesOf(t *testing.T, page string) []example {
	t.Helper()
	var examples []example
	blocks := blocksOf(t, page)
	for i, b := range blocks {
		switch {
		case b.runs():
			e := example{block: b}
			if i+1 < len(blocks) && blocks[i+1].adjacent && isOutput(blocks[i+1]) {
				e.shown = &blocks[i+1]
			}
			examples = append(examples, e)
		case isOutput(b):
			if !b.adjacent || i == 0 || !blocks[i-1].runs() {
				t.Errorf("%s:%d: no commands print this; they would be directly above", page, b.line)
			}
		case slices.Contains([]string{"console", "yaml", "promql"}, b.language):
		default:
			t.Errorf("%s:%d: a block of %q is neither run nor marked as not runnable", page, b.line, b.language)
		}
	}
	return examples
}

// runs reports whether the block is run.
func (b block) runs() bool {
	return slices.Contains([]string{"sh", "bash", "go", "python", "ts"}, b.language)
}

func isOutput(b block) bool { return b.language == "json" || b.language == "text" }

// withoutBlocks returns the prose of a page.
func withoutBlocks(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
}

// section returns the part of a page under a heading, up to the next of its level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(readPage(t, page), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	text, _, _ := strings.Cut(rest, "\n"+level+" ")
	return text
}

// rowsOf returns the cells of the table rows in a text, the headings left out.
func rowsOf(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(cells[0], "---") {
			rows = append(rows, cells)
		}
	}
	return rows
}

// code returns the text between the first pair of backticks.
func code(cell string) string {
	_, rest, _ := strings.Cut(cell, "`")
	text, _, _ := strings.Cut(rest, "`")
	return text
}
