// Package policyfile reads policies that people write, as YAML or JSON, into
// the JSON bodies that the API takes.
//
// Amounts keep their digits: a number is copied from file to body as it is written
// and never goes through a float. The pitfalls of YAML are errors with a line: values that
// look like numbers but are no numbers in JSON (1_000, 0x10, .5), duplicate
// keys, keys that are not text, merge keys, tags. NO is text, and so is 22:00.
package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds a file. The API takes bodies of 1 MiB; a file may hold
// several policies and comments.
const maxFile = 8 << 20

// Policy is one policy as its author wrote it.
type Policy struct {
	Source string // the file and, if it has several policies, which one
	File   string
	Body   []byte // a JSON object that is not validated yet

	lines positions
}

// Line returns the line of the value at a path in the form of the API's faults
// (rules[2].parameters.limit), or of the nearest value around it.
func (p Policy) Line(path string) int { return p.lines.near(path) }

// Undecoded returns which value of the body an error of decoding it is about, and what is wrong with that.
func (p Policy) Undecoded(err error) (path, text string) {
	semantic, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		return "", err.Error()
	}
	for name := range semantic.JSONPointer.Tokens() {
		inner := member(path, name)
		if i, err := strconv.Atoi(name); err == nil && p.lines[inner] == 0 {
			inner = element(path, i)
		}
		path = inner
	}
	switch {
	case errors.Is(err, jsonv2.ErrUnknownName):
		return path, fmt.Sprintf("the member %q is not known", path)
	case errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange):
		return path, path + " must be an integer"
	case semantic.Err != nil:
		return path, path + " " + semantic.Err.Error()
	default:
		return path, path + " cannot be " + KindName(semantic.JSONKind)
	}
}

// Read returns the policies of a file, of all .yaml, .yml and .json files of a folder in the order
// of their names, or of stdin if path is "-". A YAML file may hold several documents, and a
// document may be a list of policies. With an error Read also returns the policies of the files
// without faults; the error joins a *FileError for each of the others.
func Read(path string, stdin io.Reader) ([]Policy, error) {
	if path == "-" {
		return Parse("standard input", stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return ReadFile(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var all []Policy
	var failed []error
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			continue
		}
		policies, err := ReadFile(name)
		if err != nil {
			failed = append(failed, err)
		}
		all = append(all, policies...)
	}
	if len(all) == 0 && failed == nil {
		return nil, fmt.Errorf("%s: nothing in any .yaml, .yml or .json file", path)
	}
	return all, errors.Join(failed...)
}

// ReadFile returns the policies of a file.
func ReadFile(path string) ([]Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return Parse(path, f)
}

// Parse returns the policies of one YAML or JSON text; source names the text in errors. Faults of
// the text are a *FileError.
func Parse(source string, r io.Reader) ([]Policy, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if len(content) > maxFile {
		return nil, &FileError{source, []Fault{{Text: "is longer than 8 MiB"}}}
	}
	parse := parseYAML
	if first := bytes.TrimLeft(content, " \t\r\n"); len(first) > 0 && (first[0] == '{' || first[0] == '[') {
		parse = parseJSON
	}
	policies, faults := parse(content)
	if len(policies) == 0 && faults == nil {
		faults = []Fault{{Text: "there is nothing in it"}}
	}
	if faults != nil {
		return nil, &FileError{source, faults}
	}
	for i := range policies {
		policies[i].File, policies[i].Source = source, source
		if len(policies) > 1 {
			policies[i].Source = fmt.Sprintf("%s (policy %d)", source, i+1)
		}
	}
	return policies, nil
}

func parseYAML(content []byte) (policies []Policy, faults []Fault) {
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return policies, faults
		} else if err != nil {
			return nil, append(faults, yamlFault(err))
		}
		root := document.Content[0]
		nodes := []*yaml.Node{root}
		if root.Kind == yaml.SequenceNode {
			nodes = root.Content
		} else if isEmpty(root) {
			continue // an empty document: only comments before or after ---
		}
		for _, node := range nodes {
			body, lines, wrong := convert(node)
			policies = append(policies, Policy{Body: body, lines: lines})
			faults = append(faults, wrong...)
		}
	}
}

// yamlFault makes a fault of the decoder's error, whose text may begin with the line.
func yamlFault(err error) Fault {
	var line int
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		_, text, _ = strings.Cut(text, ": ")
		text += ", at this line or in what begins with it" // the library has no line of its own for what is wrong in a block
	}
	return Fault{line, text}
}

func isEmpty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0 }

// ID returns the policy's policy_id, or "" if it has none.
func (p Policy) ID() string {
	var named struct {
		PolicyID string `json:"policy_id"`
	}
	_ = json.Unmarshal(p.Body, &named) // the API reports what is wrong with the body
	return strings.TrimSpace(named.PolicyID)
}

// CheckUnique fails if a policy_id occurs twice. The last one would be in force, and each run would
// store new versions of both.
func CheckUnique(policies []Policy) error {
	var failed []error
	first := make(map[string]Policy)
	for _, p := range policies {
		id := p.ID()
		if other, ok := first[id]; ok && id != "" {
			text := fmt.Sprintf("policy_id %q is also that of %s, line %d", id, other.File, other.Line("policy_id"))
			failed = append(failed, &FileError{p.File, []Fault{{p.Line("policy_id"), text}}})
		} else {
			first[id] = p
		}
	}
	return errors.Join(failed...)
}
