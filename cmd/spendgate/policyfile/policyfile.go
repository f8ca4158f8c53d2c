// Package policyfile reads policies that people write, as YAML or JSON, into
// the JSON bodies that the API takes.
//
// Amounts keep their digits: a number goes from file to body as it is spelt
// and never through a float. The pitfalls of YAML are errors with a line: what
// looks like a number but is none in JSON (1_000, 0x10, .5), keys given
// twice, keys that are not text, merge keys, tags. NO is text, and so is 22:00.
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

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a file. The API takes bodies of 1 MiB; a file may hold
// several policies and comments.
const maxFile = 8 << 20

// Policy is one policy as its author wrote it.
type Policy struct {
	Source string // the file, and for one of several in it, which
	Body   []byte // a JSON object, which the API validates
}

// Read returns the policies of a file, of all .yaml, .yml and .json files of a
// folder, in the order of their names, or of stdin when path is "-". A YAML
// file may hold several documents, and a document may be a list of policies.
func Read(path string, stdin io.Reader) ([]Policy, error) {
	if path == "-" {
		return Parse("standard input", stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return readFile(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var all []Policy
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			continue
		}
		policies, err := readFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, policies...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no policy in any .yaml, .yml or .json file", path)
	}
	return all, nil
}

func readFile(path string) ([]Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return Parse(path, f)
}

// Parse returns the policies of one YAML or JSON text; source names it in errors.
func Parse(source string, r io.Reader) ([]Policy, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s: is longer than 8 MiB", source)
	}
	var bodies [][]byte
	if first := bytes.TrimLeft(content, " \t\r\n"); len(first) > 0 && (first[0] == '{' || first[0] == '[') {
		bodies, err = parseJSON(content)
	} else {
		bodies, err = parseYAML(content)
	}
	if err == nil && len(bodies) == 0 {
		err = errors.New("there is no policy")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	policies := make([]Policy, len(bodies))
	for i, body := range bodies {
		policies[i] = Policy{Source: source, Body: body}
		if len(bodies) > 1 {
			policies[i].Source = fmt.Sprintf("%s (policy %d)", source, i+1)
		}
	}
	return policies, nil
}

// parseJSON passes an object, or each object of an array, on as it is: what
// is wrong in it, a key given twice say, is reported by the API, with its path.
func parseJSON(content []byte) ([][]byte, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(content, &list); err == nil {
		bodies := make([][]byte, len(list))
		for i, body := range list {
			bodies[i] = body
		}
		return bodies, nil
	}
	var object json.RawMessage
	if err := json.Unmarshal(content, &object); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line := 1 + bytes.Count(content[:min(int(syntax.Offset), len(content))], []byte("\n"))
			return nil, fmt.Errorf("line %d: not JSON: %w", line, err)
		}
		return nil, err
	}
	return [][]byte{bytes.TrimSpace(content)}, nil
}

func parseYAML(content []byte) ([][]byte, error) {
	var bodies [][]byte
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return bodies, nil
		} else if err != nil {
			return nil, err
		}
		root := document.Content[0]
		policies := []*yaml.Node{root}
		if root.Kind == yaml.SequenceNode {
			policies = root.Content
		} else if isEmpty(root) {
			continue // only comments before or after ---
		}
		for _, policy := range policies {
			body, err := convert(policy)
			if err != nil {
				return nil, err
			}
			bodies = append(bodies, body)
		}
	}
}

func isEmpty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0 }
