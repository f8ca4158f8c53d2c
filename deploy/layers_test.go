package deploy_test

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// TestLayers compares the layers in ARCHITECTURE.md with the imports: a package
// imports only packages of layers below its own. Tests may import anything.
func TestLayers(t *testing.T) {
	layer := layers(t)
	imports := importsOf(t)
	for pkg := range layer {
		if imports[pkg] == nil {
			t.Errorf("ARCHITECTURE.md lists %s, which is no package", pkg)
		}
	}
	for pkg, imported := range imports {
		own, listed := layer[pkg]
		if top, _, _ := strings.Cut(pkg, "/"); !listed && (top == "bench" || top == "deploy") {
			continue // may import any, and no listed package imports it
		}
		if !listed {
			t.Errorf("ARCHITECTURE.md has no layer for %s: list it above all that it imports, %v", pkg, imported)
			continue
		}
		for _, other := range imported {
			if below, listed := layer[other]; !listed || below <= own {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports go down the layers of ARCHITECTURE.md", pkg, own, other, below)
			}
		}
	}
}

// layers returns the numbers of the layers, by the packages that are listed.
func layers(t *testing.T) map[string]int {
	t.Helper()
	_, text, _ := strings.Cut(readFile(t, "ARCHITECTURE.md"), "\n## Layers\n")
	text, _, _ = strings.Cut(text, "\n## ")
	layer := make(map[string]int)
	for _, item := range regexp.MustCompile(`(?m)^(\d+)\. (.*)$`).FindAllStringSubmatch(text, -1) {
		number := must.Get(strconv.Atoi(item[1]))(t)
		for _, pkg := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(item[2], -1) {
			if layer[pkg[1]] != 0 {
				t.Errorf("ARCHITECTURE.md lists %s twice", pkg[1])
			}
			layer[pkg[1]] = number
		}
	}
	if len(layer) == 0 {
		t.Fatal("ARCHITECTURE.md lists no layers")
	}
	return layer
}

// importsOf returns what the packages of the module import of each other, in
// paths relative to its root.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	imports := make(map[string][]string)
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		pkg := path.Dir(s.path)
		if imports[pkg] == nil {
			imports[pkg] = []string{}
		}
		for _, spec := range s.file.Imports {
			imported, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "spendgate/")
			if own && !slices.Contains(imports[pkg], imported) {
				imports[pkg] = append(imports[pkg], imported)
			}
		}
	}
	return imports
}
