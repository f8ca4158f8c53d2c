package readme_test

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spendgate/bench/must"
)

var writeIndex = flag.Bool("write-index", false, "write the titles of sections into docs/index.md, and docs/reference/errors.md")

// docs/index.md answers as many questions as people were asked for, each by a section whose title it says.
func TestIndex(t *testing.T) {
	const page, mostly = "docs/index.md", 60
	text := readPage(t, page)
	question := regexp.MustCompile(`(?m)^- .+ \[([^\]]+)\]\(([^)#]+)#([^)]+)\)$`)
	if *writeIndex {
		text = question.ReplaceAllStringFunc(text, func(line string) string {
			q := question.FindStringSubmatch(line)
			return strings.Replace(line, "["+q[1]+"]", "["+titleOf(t, filepath.Join(filepath.Dir(page), q[2]), q[3])+"]", 1)
		})
	}
	questions := question.FindAllStringSubmatch(text, -1)
	if lines := strings.Count(text, "\n- "); len(questions) < mostly || len(questions) != lines {
		t.Errorf("%d of %d questions have a section", len(questions), lines)
	}
	all := headingsOf(t)
	for _, q := range questions {
		target := filepath.Join(filepath.Dir(page), q[2])
		if title := titleOf(t, target, q[3]); title != q[1] {
			t.Errorf("%s#%s has the title %q, not %q", target, q[3], title, q[1])
		}
		findsByWords(t, all, q[0], target, q[1])
	}
	if *writeIndex {
		must.Do(t, os.WriteFile(filepath.Join(root(), page), []byte(text), 0o644))
	}
}

// headingsOf returns each heading of each page behind the title of its page, as somebody reads it who has searched for it.
func headingsOf(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, page := range pages(t) {
		title := ""
		prose := withoutBlocks(readPage(t, page))
		for _, found := range regexp.MustCompile(`(?m)^#+ (?:<a id="\w+"></a>\w+ )?(.+)$`).FindAllStringSubmatch(prose, -1) {
			title = cmp.Or(title, found[1])
			all = append(all, page+": "+title+": "+plainTitle(found[1]))
		}
	}
	return all
}

// findsByWords reports a question whose bold words do not lead to its section among the headings, or to more than a screen of them.
func findsByWords(t *testing.T, headings []string, question, page, title string) {
	t.Helper()
	words := regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(question, -1)
	var found []string
	for _, heading := range headings {
		_, text, _ := strings.Cut(strings.ToLower(heading), ": ")
		if !slices.ContainsFunc(words, func(w []string) bool { return !strings.Contains(text, strings.ToLower(w[1])) }) {
			found = append(found, heading)
		}
	}
	leads := func(heading string) bool {
		return strings.HasPrefix(heading, page+": ") && strings.HasSuffix(heading, ": "+title)
	}
	if len(words) == 0 || len(words) > 2 || len(found) > 25 || !slices.ContainsFunc(found, leads) {
		t.Errorf("%d bold words of %q lead to %d headings: %q", len(words), question, len(found), found)
	}
}

// titleOf returns the title of a section or a clause.
func titleOf(t *testing.T, page, anchor string) string {
	t.Helper()
	text := readPage(t, page)
	clause := regexp.MustCompile(`<a id="` + regexp.QuoteMeta(anchor) + `"></a>\w+ (.+)`)
	if found := clause.FindStringSubmatch(text); found != nil {
		return plainTitle(found[1])
	}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(withoutBlocks(text), -1) {
		if anchorOf(heading[1]) == anchor {
			return plainTitle(heading[1])
		}
	}
	return ""
}

// plainTitle returns a heading without the marks of code.
func plainTitle(heading string) string { return strings.ReplaceAll(heading, "`", "") }
