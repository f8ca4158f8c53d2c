// Package console serves the page for people at /console/: files for a browser, and
// the link with which spendgate dev signs in on its machine. The page is a client of the
// API like any other: it uses a person's own key and has no rights beyond that key.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// Prefix is the path of the console.
const Prefix = "/console/"

// folder of the files, below the prefix. A version of its own for all of them together
// follows: files refer to each other by relative paths.
const folder = "assets/"

// Policy is the Content-Security-Policy: files of this origin, nothing inline, no form
// that is sent, in no frame, and no text that becomes markup or a script.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// File is one that browsers ask for.
type File struct {
	Path        string // of the URL
	ContentType string
	Body        []byte
	Lasting     bool // the path has another version when the file is another
}

// Console is the HTTP content at the prefix.
type Console struct {
	Links *Links // nil where nobody signs in by a link
	files map[string]File
}

// New makes a console of the files in the binary. Without links people sign in with a key.
func New(links *Links) *Console {
	return newConsole(assets, links)
}

func newConsole(files fs.FS, links *Links) *Console {
	c := &Console{Links: links, files: make(map[string]File)}
	names, bodies := readFiles(files)
	version := versionOf(names, bodies)
	base := Prefix + folder + version + "/"
	for _, name := range names {
		if name == "index.html" {
			continue
		}
		c.add(File{base + name, contentType(name), bodies[name], true})
	}
	c.add(File{Prefix, contentType("index.html"), page(bodies["index.html"], folder+version+"/", names), false})
	return c
}

func (c *Console) add(f File) { c.files[f.Path] = f }

// Find returns the file at a path of a URL.
func (c *Console) Find(path string) (File, bool) {
	f, found := c.files[path]
	return f, found
}

// Files returns all files, by their paths.
func (c *Console) Files() []File {
	var all []File
	for _, f := range c.files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// readFiles returns the files by their names below assets, without licences.
func readFiles(files fs.FS) (names []string, bodies map[string][]byte) {
	bodies = make(map[string][]byte)
	err := fs.WalkDir(files, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || contentType(name) == "" {
			return err
		}
		body, err := fs.ReadFile(files, name)
		name = strings.TrimPrefix(name, "assets/")
		names, bodies[name] = append(names, name), resolve(name, body)
		return err
	})
	if err != nil {
		panic("BUG: the console's files: " + err.Error())
	}
	return names, bodies
}

// resolve replaces the one name of a package by the path of its file: a browser would
// need an import map, which is a script within the page.
func resolve(name string, body []byte) []byte {
	if name != "vendor/hooks.js" {
		return body
	}
	return bytes.Replace(body, []byte(`from"preact"`), []byte(`from"./preact.js"`), 1)
}

func versionOf(names []string, bodies map[string][]byte) string {
	sum := sha256.New()
	for _, name := range names {
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(bodies[name]), bodies[name]) // to memory
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// page completes index.html: its files have their version, and modules are asked for
// before others import them.
func page(text []byte, base string, names []string) []byte {
	var modules strings.Builder
	for _, name := range names {
		if path.Ext(name) == ".js" {
			modules.WriteString(`<link rel="modulepreload" href="` + base + name + "\">\n")
		}
	}
	replaced := strings.NewReplacer("{base}", base, "{modules}\n", modules.String()).Replace(string(text))
	return []byte(replaced)
}

// contentType returns the content type of a file that is served, by its name.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return ""
}
