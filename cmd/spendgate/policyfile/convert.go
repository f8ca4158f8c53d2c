package policyfile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

const (
	// maxBody is what the API takes (S4); it also bounds the expansion of aliases.
	maxBody = 1 << 20

	// maxDepth is far more than a policy nests, and bounds recursive aliases.
	maxDepth = 64
)

// converter writes a YAML node as JSON.
type converter struct{ out bytes.Buffer }

// convert returns a YAML mapping as a JSON object.
func convert(n *yaml.Node) ([]byte, error) {
	if resolve(n).Kind != yaml.MappingNode {
		return nil, fault(n, "a policy must be a mapping with name, rules and so on")
	}
	var c converter
	if err := c.node(n, 0); err != nil {
		return nil, err
	}
	return c.out.Bytes(), nil
}

func fault(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...)
}

// resolve follows aliases; YAML has none of an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (c *converter) node(n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fault(n, "is nested more than %d levels deep", maxDepth)
	}
	if c.out.Len() > maxBody {
		return fault(n, "the policy is longer than the 1 MiB that the API takes")
	}
	n = resolve(n)
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str" && n.Tag != "!!map" && n.Tag != "!!seq" {
		return fault(n, "the tag %s is not supported", n.Tag)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return c.mapping(n, depth)
	case yaml.SequenceNode:
		return c.sequence(n, depth)
	case yaml.ScalarNode:
		return c.scalar(n)
	default:
		return fault(n, "cannot be understood")
	}
}

func (c *converter) mapping(n *yaml.Node, depth int) error {
	seen := make(map[string]bool, len(n.Content)/2)
	c.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		switch {
		case key.Kind != yaml.ScalarNode:
			return fault(n.Content[i], "a key must be text")
		case key.Tag == "!!merge":
			return fault(key, "merge keys (<<) are not supported; name a value with & and repeat it with *")
		case !isText(key):
			return fault(key, "the key %s is not text; write it in quotes", key.Value)
		case seen[key.Value]:
			return fault(key, "the key %q is given twice", key.Value)
		}
		seen[key.Value] = true
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.text(key.Value); err != nil {
			return err
		}
		c.out.WriteByte(':')
		if err := c.node(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return nil
}

func (c *converter) sequence(n *yaml.Node, depth int) error {
	c.out.WriteByte('[')
	for i, element := range n.Content {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.node(element, depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte(']')
	return nil
}

// scalar writes a plain scalar as what it means in JSON and everything else as
// text. Numbers are copied, so that 0.1 stays 0.1 and 500.00 stays 500.00.
func (c *converter) scalar(n *yaml.Node) error {
	switch {
	case isPlain(n) && isNumber(n.Value):
		c.out.WriteString(n.Value)
	case isText(n):
		return c.text(n.Value)
	case n.Tag == "!!null":
		c.out.WriteString("null")
	case n.Tag == "!!bool" && (n.Value[0] == 't' || n.Value[0] == 'T'):
		c.out.WriteString("true")
	case n.Tag == "!!bool":
		c.out.WriteString("false")
	default:
		return fault(n, "%s is a number in YAML but not in JSON; write it in plain decimal digits, or in quotes if it is text", n.Value)
	}
	return nil
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

// text writes a JSON string; signs like < stay readable.
func (c *converter) text(s string) error {
	encoder := json.NewEncoder(&c.out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return err
	}
	c.out.Truncate(c.out.Len() - 1) // the encoder's newline
	return nil
}
