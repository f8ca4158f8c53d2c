package intent

import (
	"fmt"
	"strconv"
	"strings"
)

// term is a word in the vocabulary, after stemming and aliasing.
type term int32

// The terms that are no word of the vocabulary.
const (
	unknown    term = -1 // a word without an entry
	number     term = -2 // digits, whatever their value (S19)
	percentage term = -3 // digits with a percent sign
	softBreak  term = -4 // comma, bracket, dash: ends the reach of a negation
	hardBreak  term = -5 // end of a sentence
)

// The classes that a word can be evidence for. The first four are in the order of spend.ActionTypes;
// the class none is for text without any financial action.
const (
	refundClass = iota
	creditClass
	discountClass
	spendClass
	noneClass
	classes
)

var classNames = [classes]string{"refund", "credit", "discount", "spend", "none"}

// weights is evidence for each class, in tenths of a unit of log-odds.
type weights [classes]int16

// lexicon is everything that New builds and nothing changes afterwards.
type lexicon struct {
	terms    map[string]term     // by stem; an alias has the term of its word
	names    []string            // by term
	groups   []uint32            // by term: the @classes it belongs to, as bits
	patterns [][]*pattern        // by first term: most words first
	numeric  []*pattern          // patterns that begin with a number or percentage
	groupIDs map[string]uint32   // @class name to its bit
	thin     uint32              // the bit of words that a negation looks through
	stop     uint32              // the bit of words that no gap reaches over
	past     uint32              // the bit of was, has and the like
	or       uint32              // the bit of or, nor
	typos    typoIndex           // corrects misspellings of lexicon words
	single   []weights           // by term: fitted weights (weights.tsv)
	pairs    map[uint64]*weights // by two neighbouring terms: fitted weights
	bias     weights
}

// intern returns the term of a word as written, and makes one if there is none.
func (x *lexicon) intern(word string) term {
	s := string(stem([]byte(word)))
	if t, ok := x.terms[s]; ok {
		return t
	}
	t := term(len(x.names))
	x.terms[s] = t
	x.names = append(x.names, s)
	x.groups = append(x.groups, 0)
	x.patterns = append(x.patterns, nil)
	x.single = append(x.single, weights{})
	return t
}

// parseLexicon reads lexicon.txt, whose head describes it. The order of its lines matters only in that
// aliases are read first, so that patterns may use any spelling.
func parseLexicon(text string) (*lexicon, error) {
	x := &lexicon{
		terms:    make(map[string]term, 4096),
		groupIDs: make(map[string]uint32),
		pairs:    make(map[uint64]*weights),
		typos:    newTypoIndex(),
	}
	for _, pass := range []func(verb string, fields []string) error{x.parseAlias, x.parseGroup, x.parseEntry} {
		for n, line := range strings.Split(text, "\n") {
			fields := strings.Fields(line)
			if len(fields) < 2 || strings.HasPrefix(line, "#") {
				continue
			}
			if err := pass(fields[0], fields[1:]); err != nil {
				return nil, fmt.Errorf("lexicon line %d: %w", n+1, err)
			}
		}
	}
	x.thin, x.past, x.or = x.groupIDs["thin"], x.groupIDs["past"], x.groupIDs["or"]
	x.markStops()
	x.sortPatterns()
	return x, nil
}

func (x *lexicon) parseAlias(verb string, fields []string) error {
	if verb != "alias" {
		return nil
	}
	target := x.intern(fields[0])
	for _, form := range fields[1:] {
		x.terms[string(stem([]byte(form)))] = target
	}
	return nil
}

func (x *lexicon) parseGroup(verb string, fields []string) error {
	if verb != "class" {
		return nil
	}
	if len(x.groupIDs) == 32 {
		return fmt.Errorf("more than 32 classes")
	}
	bit := uint32(1) << len(x.groupIDs)
	x.groupIDs[fields[0]] = bit
	for _, word := range fields[1:] {
		x.groups[x.intern(word)] |= bit
	}
	return nil
}

func (x *lexicon) parseEntry(verb string, fields []string) error {
	switch verb {
	case "alias", "class":
		return nil
	case "typo":
		for _, form := range fields {
			x.typos.add(form, x.intern(form))
		}
		return nil
	case "real":
		for _, form := range fields {
			x.typos.protect(form)
		}
		return nil
	case "skip":
		return x.addPattern(&pattern{}, fields)
	case "cue":
		kind, ok := cueKinds[fields[0]]
		if !ok {
			return fmt.Errorf("unknown cue %q", fields[0])
		}
		return x.addPattern(&pattern{cue: kind}, fields[1:])
	}
	for class, name := range classNames {
		if verb != name {
			continue
		}
		points, err := strconv.ParseInt(fields[0], 10, 16)
		if err != nil {
			return err
		}
		p := &pattern{class: class}
		p.weights[class] = int16(points)
		return x.addPattern(p, fields[1:])
	}
	return fmt.Errorf("unknown entry %q", verb)
}

// parseWeights reads weights.tsv: one or two stems, then a weight per class.
// The stem "*" is the bias. Words new to the lexicon join the vocabulary.
func (x *lexicon) parseWeights(text string) error {
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, rest, _ := strings.Cut(line, "\t")
		var w weights
		for class, field := range strings.Split(rest, "\t") {
			v, err := strconv.ParseInt(field, 10, 16)
			if err != nil || class >= classes {
				return fmt.Errorf("weights line %d: %q", n+1, line)
			}
			w[class] = int16(v)
		}
		x.setWeights(key, w)
	}
	return nil
}

func (x *lexicon) setWeights(key string, w weights) {
	first, second, isPair := strings.Cut(key, " ")
	switch {
	case key == "*":
		x.bias = w
	case isPair:
		x.pairs[pairKey(x.internStem(first), x.internStem(second))] = &w
	default:
		t := x.internStem(first)
		x.single[t] = w
	}
}

// internStem interns a word that is a stem already, or "#" or "%".
func (x *lexicon) internStem(s string) term {
	switch s {
	case "#":
		return number
	case "%":
		return percentage
	}
	if t, ok := x.terms[s]; ok {
		return t
	}
	t := x.intern(s)
	x.terms[s] = t
	return t
}

func pairKey(a, b term) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }
