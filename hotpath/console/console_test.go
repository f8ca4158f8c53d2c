package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"spendgate/bench/must"
)

// All files together have less than 200 KB as they are sent.
func TestSize(t *testing.T) {
	var zipped bytes.Buffer
	for _, f := range New(nil).Files() {
		w := gzip.NewWriter(&zipped)
		must.Get(w.Write(f.Body))(t)
		must.Do(t, w.Close())
	}
	if zipped.Len() >= 200_000 {
		t.Errorf("%d bytes", zipped.Len())
	}
	t.Logf("%d bytes, compressed", zipped.Len())
}

var vendoredRow = regexp.MustCompile("(?m)^\\| `(\\S+)` \\|.*`([0-9a-f]{64})` \\|$")

// Vendored files are those of their packages.
func TestVendored(t *testing.T) {
	table := must.Get(os.ReadFile("assets/vendor/README.md"))(t)
	rows := vendoredRow.FindAllStringSubmatch(string(table), -1)
	modules, err := fs.Glob(assets, "assets/vendor/*.js")
	if err != nil || len(modules) != len(rows) {
		t.Fatal(modules, rows, err)
	}
	for _, row := range rows {
		body := must.Get(os.ReadFile(path.Join("assets/vendor", row[1])))(t)
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != row[2] {
			t.Errorf("%s has the SHA-256 %x", row[1], sum)
		}
	}
}

// A change of any file changes the paths of all files, and the page names every file.
func TestVersions(t *testing.T) {
	files := fstest.MapFS{
		"assets/index.html": {Data: []byte("<link href=\"{base}a.css\">\n{modules}\n")},
		"assets/a.css":      {Data: []byte("a")}, "assets/b.js": {Data: []byte("b")}, "assets/LICENSE": {Data: []byte("no file of the page")},
	}
	before := newConsole(files, nil)
	page, _ := before.Find(Prefix)
	if len(before.Files()) != 3 || strings.Count(string(page.Body), "modulepreload") != 1 || page.Lasting {
		t.Errorf("%v\n%s", before.Files(), page.Body)
	}
	files["assets/b.js"].Data = []byte("c")
	for _, f := range newConsole(files, nil).Files() {
		if _, same := before.Find(f.Path); same == f.Lasting {
			t.Errorf("%s is there before and after the change", f.Path)
		}
	}
}

// No module makes markup of text, or asks for anything but paths of this origin.
func TestNoMarkupFromText(t *testing.T) {
	forbidden := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|https?://|document\.cookie|localStorage`)
	for _, f := range New(nil).Files() {
		if strings.Contains(f.Path, "/vendor/") || strings.HasSuffix(f.Path, ".svg") {
			continue
		}
		if found := forbidden.Find(f.Body); found != nil {
			t.Errorf("%s has %s", f.Path, found)
		}
		if lines := bytes.Count(f.Body, []byte("\n")); lines >= 400 {
			t.Errorf("%s has %d lines", f.Path, lines)
		}
	}
}

func TestLinks(t *testing.T) {
	ctx, now, asked, fails := context.Background(), time.Now(), 0, errors.New("no store")
	var fault error
	l := NewLinks(func(context.Context) (Keys, error) { asked++; return Keys{"k", "a"}, fault })
	use := func(code string, at time.Time, want error) {
		t.Helper()
		if _, err := l.Use(ctx, code, at); !errors.Is(err, want) {
			t.Errorf("%v, not %v", err, want)
		}
	}
	use("", now, ErrLink) // before there is one
	first := l.Make(now)
	use("", now, ErrLink)
	use("wrong", now, ErrLink)
	use(first, now.Add(linkFor), ErrLink)
	fault = fails
	use(first, now, fails) // which does not use it up
	fault = nil
	use(first, now.Add(linkFor-1), nil)
	use(first, now, ErrLink)
	second := l.Make(now)
	use(first, now, ErrLink)
	use(second, now, nil)
	if asked != 3 || first == second {
		t.Errorf("keys were asked for %d times", asked)
	}
}
