package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner walks JSON and notes the line of each value.
type scanner struct {
	content []byte
	decoder *jsontext.Decoder
	lines   positions

	offset, line int // up to which offset newlines are counted, and the line there
}

// parseJSON returns an object, or each object of an array, unchanged.
func parseJSON(content []byte) ([]Policy, []Fault) {
	s := &scanner{content: content, decoder: jsontext.NewDecoder(bytes.NewBuffer(content)), line: 1}
	policies, faults, err := s.document()
	if err == nil {
		if _, err = s.decoder.ReadToken(); err == nil {
			err = errors.New("something follows the end")
		} else if errors.Is(err, io.EOF) {
			return policies, faults
		}
	}
	return nil, append(faults, s.fault(err))
}

func (s *scanner) document() (policies []Policy, faults []Fault, err error) {
	if s.decoder.PeekKind() == jsontext.KindBeginObject {
		p, err := s.policy()
		return []Policy{p}, nil, err
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, nil, err
	}
	for {
		switch s.decoder.PeekKind() {
		case jsontext.KindEndArray, jsontext.KindInvalid:
			_, err := s.decoder.ReadToken()
			return policies, faults, err
		case jsontext.KindBeginObject:
			p, err := s.policy()
			if err != nil {
				return nil, faults, err
			}
			policies = append(policies, p)
		default:
			if err := s.decoder.SkipValue(); err != nil {
				return nil, faults, err
			}
			faults = append(faults, Fault{s.here(), mustBeMapping})
		}
	}
}

// policy reads the next object.
func (s *scanner) policy() (Policy, error) {
	s.lines = make(positions)
	before := s.decoder.InputOffset()
	if err := s.value("", 0); err != nil {
		return Policy{}, err
	}
	text := s.content[before:s.decoder.InputOffset()]
	return Policy{Body: text[bytes.IndexByte(text, '{'):], lines: s.lines}, nil
}

func (s *scanner) value(path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is nested more than %d levels deep", maxDepth)
	}
	token, err := s.decoder.ReadToken()
	if err != nil {
		return err
	}
	if _, noted := s.lines[path]; !noted {
		s.lines.note(path, s.here())
	}
	switch token.Kind() {
	case jsontext.KindBeginObject:
		for s.decoder.PeekKind() == jsontext.KindString {
			name, err := s.decoder.ReadToken()
			if err != nil {
				return err
			}
			inner := member(path, name.String())
			s.lines.note(inner, s.here())
			if err := s.value(inner, depth+1); err != nil {
				return err
			}
		}
	case jsontext.KindBeginArray:
		for i := 0; s.decoder.PeekKind() != jsontext.KindEndArray; i++ {
			if err := s.value(element(path, i), depth+1); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = s.decoder.ReadToken() // the closing bracket
	return err
}

// here returns the line in which the last token ends; no token contains a newline.
func (s *scanner) here() int { return s.lineAt(s.decoder.InputOffset()) }

// lineAt returns the line of an offset. Offsets must not decrease from call to call.
func (s *scanner) lineAt(offset int64) int {
	end := min(int(offset), len(s.content))
	s.line += bytes.Count(s.content[s.offset:max(end, s.offset)], []byte("\n"))
	s.offset = max(end, s.offset)
	return s.line
}

func (s *scanner) fault(err error) Fault {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return Fault{s.here(), "not JSON: " + err.Error()}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return Fault{s.lineAt(syntax.ByteOffset), fmt.Sprintf(givenTwice, syntax.JSONPointer.LastToken())}
	}
	return Fault{s.lineAt(syntax.ByteOffset), "not JSON: " + syntax.Err.Error()}
}
