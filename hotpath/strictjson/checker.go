package strictjson

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What Check finds wrong with a text, besides a SyntaxError.
var (
	ErrEmpty         = errors.New("there is no value")
	ErrTruncated     = errors.New("the text ends within a value")
	ErrTrailing      = errors.New("there is another value after the first")
	ErrDuplicateName = errors.New("an object has a member name twice")
	ErrNUL           = errors.New("a string has U+0000 in it")
)

// SyntaxError is a text that breaks the grammar, is not UTF-8 or has a lone
// surrogate in it.
type SyntaxError struct {
	Offset int // of the first byte that is wrong
}

func (e *SyntaxError) Error() string { return "wrong at byte " + strconv.Itoa(e.Offset) }

const (
	// maxDepth bounds how deep objects and arrays may nest.
	maxDepth = 10000
	// fewNames is how many names of an object are looked through one by one.
	fewNames = 32
)

// Checker checks texts. The zero value is ready; one that is used again spares
// the memory for its stacks.
type Checker struct {
	text   string
	at     int      // what is before it is right
	levels []level  // the objects and arrays that are open, outermost first
	names  []string // of the members so far of the open objects
}

// level is an object or array that is open.
type level struct {
	end   byte                // what closes it
	first int                 // where its names begin
	seen  map[string]struct{} // its names, once they are many
}

// Check is nil for one JSON value (RFC 8259) in UTF-8, without an object that
// has a member name twice, without a lone surrogate and without U+0000 in a
// string. Its errors are those of this package.
func (c *Checker) Check(text string) error {
	c.text, c.at = text, 0
	err := c.document()
	clear(c.names) // they would keep the text
	clear(c.levels)
	c.text, c.names, c.levels = "", c.names[:0], c.levels[:0]
	return err
}

func (c *Checker) document() error {
	if c.space(); c.at == len(c.text) {
		return ErrEmpty
	}
	if err := c.value(); err != nil {
		return err
	}
	if c.space(); c.at == len(c.text) {
		return nil
	}
	if err := c.value(); err != nil {
		return err
	}
	return ErrTrailing
}

// value passes a value, however deep.
func (c *Checker) value() error {
	for {
		opened, err := c.begin()
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		if done, err := c.end(); done || err != nil {
			return err
		}
	}
}

// begin passes the beginning of a value: all of it, unless it is an object or
// array with something in it.
func (c *Checker) begin() (opened bool, err error) {
	switch c.peek() {
	case '"':
		_, err = c.quoted()
		return false, err
	case '{':
		return c.open('}')
	case '[':
		return c.open(']')
	case 't':
		return false, c.literal("true")
	case 'f':
		return false, c.literal("false")
	case 'n':
		return false, c.literal("null")
	default:
		return false, c.number()
	}
}

// open passes an opening bracket and what belongs to the first value behind
// it; or a pair of brackets with nothing between.
func (c *Checker) open(end byte) (opened bool, err error) {
	if len(c.levels) == maxDepth {
		return false, c.wrong()
	}
	c.at++
	if c.space(); c.peek() == end {
		c.at++
		return false, nil
	}
	c.levels = append(c.levels, level{end: end, first: len(c.names)})
	if end == '}' {
		return true, c.name()
	}
	return true, nil
}

// end passes what follows a value: the brackets that close behind it, and the
// comma before the next value. done means that nothing is open any more.
func (c *Checker) end() (done bool, err error) {
	for len(c.levels) > 0 {
		top := &c.levels[len(c.levels)-1]
		c.space()
		switch c.peek() {
		case ',':
			c.at++
			c.space()
			if top.end == '}' {
				return false, c.name()
			}
			return false, nil
		case top.end:
			c.at++
			c.names = c.names[:top.first]
			c.levels = c.levels[:len(c.levels)-1]
		default:
			return false, c.wrong()
		}
	}
	return true, nil
}

// name passes a member's name and its colon.
func (c *Checker) name() error {
	if c.peek() != '"' {
		return c.wrong()
	}
	start := c.at
	escaped, err := c.quoted()
	if err != nil {
		return err
	}
	name := c.text[start+1 : c.at-1]
	if escaped {
		name = unescape(name)
	}
	if c.repeated(name) {
		return ErrDuplicateName
	}
	if c.space(); c.peek() != ':' {
		return c.wrong()
	}
	c.at++
	c.space()
	return nil
}

// repeated reports whether the innermost object has had the name already.
func (c *Checker) repeated(name string) bool {
	top := &c.levels[len(c.levels)-1]
	if names := c.names[top.first:]; top.seen == nil {
		c.names = append(c.names, name)
		if len(names) < fewNames {
			return slices.Contains(names, name)
		}
		top.seen = make(map[string]struct{}, 2*fewNames)
		for _, n := range names {
			top.seen[n] = struct{}{}
		}
	}
	_, twice := top.seen[name]
	top.seen[name] = struct{}{}
	return twice
}

// quoted passes a string and tells whether there are escapes in it.
func (c *Checker) quoted() (escaped bool, err error) {
	c.at++
	for {
		c.at += plain(c.text[c.at:])
		switch b := c.peek(); {
		case b == '"':
			c.at++
			return escaped, nil
		case b == '\\':
			escaped = true
			if err := c.escape(); err != nil {
				return true, err
			}
		case b < utf8.RuneSelf:
			return escaped, c.wrong()
		default:
			r, size := utf8.DecodeRuneInString(c.text[c.at:])
			if r == utf8.RuneError && size == 1 {
				return escaped, c.wrong()
			}
			c.at += size
		}
	}
}

// plain counts the bytes at the beginning of s that mean themselves in a string.
func plain(s string) int {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}

// escape passes a backslash and what it escapes; of a pair of surrogates,
// both.
func (c *Checker) escape() error {
	rest := c.text[c.at:]
	if len(rest) < 2 {
		return ErrTruncated
	}
	if rest[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, rest[1]) < 0 {
			return c.wrong()
		}
		c.at += 2
		return nil
	}
	r, size := escapedRune(rest)
	switch {
	case size == 0:
		return c.wrong()
	case r == 0:
		return ErrNUL
	}
	c.at += size
	return nil
}

// number passes a number.
func (c *Checker) number() error {
	if c.peek() == '-' {
		c.at++
	}
	if c.peek() == '0' {
		c.at++
	} else if !c.digits() {
		return c.wrong()
	}
	if c.peek() == '.' {
		if c.at++; !c.digits() {
			return c.wrong()
		}
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		c.at++
		if b := c.peek(); b == '+' || b == '-' {
			c.at++
		}
		if !c.digits() {
			return c.wrong()
		}
	}
	return nil
}

// digits passes digits and reports whether there was one.
func (c *Checker) digits() bool {
	start := c.at
	for c.at < len(c.text) && '0' <= c.text[c.at] && c.text[c.at] <= '9' {
		c.at++
	}
	return c.at > start
}

func (c *Checker) literal(name string) error {
	for i := range len(name) {
		if c.peek() != name[i] {
			return c.wrong()
		}
		c.at++
	}
	return nil
}

func (c *Checker) space() {
	for c.at < len(c.text) && isSpace(c.text[c.at]) {
		c.at++
	}
}

// peek is the next byte; 0, which begins and ends nothing, if there is none.
func (c *Checker) peek() byte {
	if c.at < len(c.text) {
		return c.text[c.at]
	}
	return 0
}

// wrong says that the next byte cannot be.
func (c *Checker) wrong() error {
	if c.at == len(c.text) {
		return ErrTruncated
	}
	return &SyntaxError{c.at}
}
