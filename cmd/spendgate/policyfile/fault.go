package policyfile

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Fault is one thing wrong with a file.
type Fault struct {
	Line int // 0 if the fault has no line of its own
	Text string
}

const (
	mustBeMapping = "a policy must be a mapping with name, rules and so on"
	givenTwice    = "the key %q is given twice"
)

// FileError has all faults of one file.
type FileError struct {
	File   string
	Faults []Fault
}

// Error returns a line for each fault.
func (e *FileError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = e.File + ": " + f.Text
		if f.Line > 0 {
			texts[i] = fmt.Sprintf("%s: line %d: %s", e.File, f.Line, f.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// KindName returns what people call a JSON value of a kind.
func KindName(kind jsontext.Kind) string {
	return cmp.Or(map[jsontext.Kind]string{
		'"': "text", '0': "a number", '{': "an object", '[': "a list", 't': "true or false", 'f': "true or false", 'n': "null",
	}[kind], "nothing")
}

// positions has the line of each value, by its path.
type positions map[string]int

// maxPath is longer than the path of anything that a policy may have.
const maxPath = 1 << 10

func (p positions) note(path string, line int) {
	if len(path) <= maxPath {
		p[path] = line
	}
}

// near returns the line of the value at a path, or of the nearest value around it.
func (p positions) near(path string) int {
	for {
		if line, ok := p[path]; ok || path == "" {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// member and element return paths in the form that the API's faults have.
func member(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
