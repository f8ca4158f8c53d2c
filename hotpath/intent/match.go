package intent

import (
	"fmt"
	"slices"
)

// maxGap is how many words a * in a pattern may stand for.
const maxGap = 3

const maxPatternWords = 8

type elementKind uint8

const (
	literal elementKind = iota
	group
	gap
)

type element struct {
	kind elementKind
	term term   // of a literal; number and percentage are literals, too
	bits uint32 // of a group
}

// pattern is one entry of the lexicon: the wording, and what it means.
type pattern struct {
	elements []element
	words    int // elements that are not gaps
	cue      cueKind
	class    int // the class it is evidence for
	weights  weights
}

// hit is a pattern found in a text.
type hit struct {
	pattern     *pattern
	first, last int16 // tokens
}

// strong reports whether the pattern is evidence that a negation or contrast can
// apply to, not mere context.
func (p *pattern) strong() bool { return p.cue == noCue && p.weights[p.class] >= 14 }

// addPattern files a pattern under each term that it may begin with, so that matching looks only at
// patterns whose first word occurs.
func (x *lexicon) addPattern(p *pattern, fields []string) error {
	for _, f := range fields {
		e := element{}
		switch {
		case f == "*":
			e.kind = gap
		case f == "#":
			e.term = number
		case f == "%":
			e.term = percentage
		case f[0] == '@':
			bits, ok := x.groupIDs[f[1:]]
			if !ok {
				return fmt.Errorf("unknown class %q", f)
			}
			e.kind, e.bits = group, bits
		default:
			e.term = x.intern(f)
		}
		if e.kind != gap {
			p.words++
		}
		p.elements = append(p.elements, e)
	}
	if p.words > maxPatternWords {
		return fmt.Errorf("a pattern of more than %d words", maxPatternWords)
	}
	if len(p.elements) == 0 || p.elements[0].kind == gap || p.elements[len(p.elements)-1].kind == gap {
		return fmt.Errorf("a pattern begins and ends with a word")
	}
	switch first := p.elements[0]; {
	case first.kind == group:
		for t := range x.groups {
			if x.groups[t]&first.bits != 0 {
				x.patterns[t] = append(x.patterns[t], p)
			}
		}
	case first.term < 0:
		x.numeric = append(x.numeric, p)
	default:
		x.patterns[first.term] = append(x.patterns[first.term], p)
	}
	return nil
}

// markStops lets no gap reach over a single word that is a cue which turns.
func (x *lexicon) markStops() {
	x.stop = x.groupIDs["stop"]
	for id, ps := range x.patterns {
		for _, p := range ps {
			if p.cue.turns() && p.words == 1 {
				x.groups[id] |= x.stop
			}
		}
	}
}

// sortPatterns puts the most specific pattern of each place first: most words,
// then words rather than classes, then the fewest gaps.
func (x *lexicon) sortPatterns() {
	rank := func(p *pattern) int {
		r := 0
		for _, e := range p.elements {
			switch e.kind {
			case literal:
				r += 10
			case group:
				r += 9
			case gap:
				r--
			}
		}
		return r
	}
	order := func(a, b *pattern) int { return rank(b) - rank(a) }
	for _, ps := range x.patterns {
		slices.SortStableFunc(ps, order)
	}
	slices.SortStableFunc(x.numeric, order)
}

// match finds the patterns in t.tokens, from left to right. A word that one
// pattern has used is not used by another.
func (x *lexicon) match(t *text) {
	for i := 0; i < t.n && t.hitCount < maxHits; i++ {
		tok := &t.tokens[i]
		if tok.hit >= 0 || tok.term <= softBreak || tok.term == unknown {
			continue
		}
		candidates := x.numeric
		if tok.term >= 0 {
			candidates = x.patterns[tok.term]
		}
		for _, p := range candidates {
			var used [maxPatternWords]int16
			if !x.matchFrom(t, p, 0, i, &used, 0) {
				continue
			}
			h := &t.hits[t.hitCount]
			h.pattern, h.first, h.last = p, int16(i), used[p.words-1]
			for _, u := range used[:p.words] {
				t.tokens[u].hit = int16(t.hitCount)
			}
			t.hitCount++
			break
		}
	}
}

// matchFrom matches p.elements[e:] at token i and notes the tokens it uses.
func (x *lexicon) matchFrom(t *text, p *pattern, e, i int, used *[maxPatternWords]int16, n int) bool {
	if e == len(p.elements) {
		return true
	}
	el := p.elements[e]
	if el.kind == gap {
		for skip := 0; skip <= maxGap; skip++ {
			if x.matchFrom(t, p, e+1, i+skip, used, n) {
				return true
			}
			if i+skip >= t.n || !x.gapMayHold(t, i+skip) {
				return false
			}
		}
		return false
	}
	if i >= t.n || n >= len(used) || t.tokens[i].hit >= 0 {
		return false
	}
	tok := t.tokens[i].term
	if el.kind == literal && tok != el.term || el.kind == group && (tok < 0 || x.groups[tok]&el.bits == 0) {
		return false
	}
	used[n] = int16(i)
	return x.matchFrom(t, p, e+1, i+1, used, n+1)
}

// gapMayHold keeps a phrase from reaching over the end of a clause or over
// wording that turns the sense ("offer credit instead of ...").
func (x *lexicon) gapMayHold(t *text, i int) bool {
	tok := t.tokens[i].term
	return tok > softBreak && (tok < 0 || x.groups[tok]&x.stop == 0)
}
