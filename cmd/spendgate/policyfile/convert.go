package policyfile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

const (
	// maxBody is the longest body that the API takes (S4); it also bounds the expansion of aliases.
	maxBody = 1 << 20

	// maxDepth is far more than a policy nests, and bounds recursive aliases.
	maxDepth = 64
)

// converter writes a YAML node as JSON. After a fault it continues in order to find the others; its
// output is then useless.
type converter struct {
	out    bytes.Buffer
	lines  positions
	faults []Fault
	over   bool // a bound was exceeded: nothing more is converted
}

// convert returns a YAML mapping as a JSON object, and the lines of its values.
func convert(n *yaml.Node) ([]byte, positions, []Fault) {
	c := converter{lines: make(positions)}
	if resolve(n).Kind != yaml.MappingNode {
		c.fault(n, mustBeMapping)
		return nil, nil, c.faults
	}
	c.node(n, "", 0)
	return c.out.Bytes(), c.lines, c.faults
}

func (c *converter) fault(n *yaml.Node, format string, args ...any) {
	c.faults = append(c.faults, Fault{n.Line, fmt.Sprintf(format, args...)})
}

// resolve follows an alias. YAML has no alias of an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (c *converter) node(n *yaml.Node, path string, depth int) {
	switch {
	case c.over:
		return
	case depth > maxDepth:
		c.over = true
		c.fault(n, "is nested more than %d levels deep", maxDepth)
		return
	case c.out.Len() > maxBody:
		c.over = true
		c.fault(n, "is longer than the 1 MiB that the API takes")
		return
	}
	c.lines.note(path, n.Line)
	n = resolve(n)
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str" && n.Tag != "!!map" && n.Tag != "!!seq" {
		c.fault(n, "the tag %s is not supported", n.Tag)
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		c.mapping(n, path, depth)
	case yaml.SequenceNode:
		c.sequence(n, path, depth)
	case yaml.ScalarNode:
		c.scalar(n)
	default:
		c.fault(n, "cannot be understood")
	}
}

func (c *converter) mapping(n *yaml.Node, path string, depth int) {
	seen := make(map[string]bool, len(n.Content)/2)
	c.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		switch {
		case key.Kind != yaml.ScalarNode:
			c.fault(n.Content[i], "a key must be text")
			continue
		case key.Tag == "!!merge":
			c.fault(key, "merge keys (<<) are not supported; name a value with & and repeat it with *")
			continue
		case !isText(key):
			c.fault(key, "the key %s is not text; write it in quotes", key.Value)
			continue
		case seen[key.Value]:
			c.fault(key, givenTwice, key.Value)
			continue
		}
		seen[key.Value] = true
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.text(key, key.Value)
		c.out.WriteByte(':')
		inner := member(path, key.Value)
		c.node(n.Content[i+1], inner, depth+1)
		c.lines.note(inner, n.Content[i].Line)
	}
	c.out.WriteByte('}')
}

func (c *converter) sequence(n *yaml.Node, path string, depth int) {
	c.out.WriteByte('[')
	for i, one := range n.Content {
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.node(one, element(path, i), depth+1)
	}
	c.out.WriteByte(']')
}

// scalar writes a plain scalar as its JSON value, and any other scalar as text. Numbers are copied,
// so that 0.1 stays 0.1 and 500.00 stays 500.00.
func (c *converter) scalar(n *yaml.Node) {
	switch {
	case isPlain(n) && isNumber(n.Value):
		c.out.WriteString(n.Value)
	case isText(n):
		c.text(n, n.Value)
	case n.Tag == "!!null":
		c.out.WriteString("null")
	case n.Tag == "!!bool" && (n.Value[0] == 't' || n.Value[0] == 'T'):
		c.out.WriteString("true")
	case n.Tag == "!!bool":
		c.out.WriteString("false")
	default:
		c.fault(n, "%s is a number in YAML but not in JSON; write it in plain decimal digits, or in quotes if it is text", n.Value)
	}
}

func isPlain(n *yaml.Node) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n.Style&(quoted|yaml.TaggedStyle) == 0
}

// isText reports whether a scalar is text; dates, which JSON does not have, and
// the booleans of YAML 1.1 (yes, no) count as text.
func isText(n *yaml.Node) bool {
	if !isPlain(n) {
		return true
	}
	return (n.Tag == "!!str" || n.Tag == "!!timestamp") && !isNumber(n.Value)
}

// isNumber reports whether s is a number by JSON's grammar.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && json.Valid([]byte(s))
}

// text writes a JSON string, in which characters like < stay readable.
func (c *converter) text(n *yaml.Node, s string) {
	encoder := json.NewEncoder(&c.out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		c.fault(n, "cannot be written as JSON: %v", err)
		return
	}
	c.out.Truncate(c.out.Len() - 1) // Encode appends a newline
}
