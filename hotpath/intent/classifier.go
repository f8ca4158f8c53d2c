package intent

import (
	_ "embed"

	"spendgate/audit/spend"
)

//go:embed lexicon.txt
var lexiconText string

//go:embed weights.tsv
var weightsText string

// Classifier resolves reason texts. It is immutable: any number of goroutines
// may use one.
type Classifier struct{ lexicon *lexicon }

// New builds the tables, which takes milliseconds: build one and keep it.
func New() *Classifier {
	x, err := parseLexicon(lexiconText)
	if err == nil {
		err = x.parseWeights(weightsText)
	}
	if err != nil {
		// The tables are part of the program; a test reads them.
		panic("BUG: intent: " + err.Error())
	}
	return &Classifier{lexicon: x}
}

// Classify resolves a reason text to an action type. The type is never Unspecified. The confidence is
// High if the evidence is clear, Medium if it is narrow, and Low if it is contradictory or there is
// none (then the type is Spend). It is deterministic, and its work is bounded for any text.
func (c *Classifier) Classify(reason string) spend.Resolution {
	var t text
	c.lexicon.read(&t, reason)
	scores := c.lexicon.score(&t)
	return resolve(&scores)
}

// read fills t with the tokens of s, the patterns among them and their scales.
func (x *lexicon) read(t *text, s string) {
	x.scan(t, s)
	x.match(t)
	x.applyCues(t)
}

// Scores add up points times eighths; below, in these units.
const unit = 10 * full

// The margins, over every other class, from which a resolution is Medium and
// High: 0.7 and 2 units of log-odds, about two and seven to one.
const (
	mediumMargin = unit * 7 / 10
	highMargin   = unit * 2
)

// longText is how many tokens of context count in full; the context of a longer
// text is scaled down to as much, lest its length decide.
const longText = 24

// scores is the sum of evidence for each class.
type scores [classes]int

// score sums the evidence in t.
func (x *lexicon) score(t *text) scores {
	s := x.context(t)
	for class := range s {
		if t.n > longText {
			s[class] = s[class] * longText / t.n
		}
		s[class] += int(x.bias[class]) * full
	}
	for i := range t.hits[:t.hitCount] {
		h := &t.hits[i]
		scale := t.hitScale(i)
		for class, w := range h.pattern.weights {
			s[class] += int(w) * scale
		}
	}
	return s
}

// hitScale returns how much a hit counts: less when the same was said before, as to
// say it twice is not twice the evidence.
func (t *text) hitScale(i int) int {
	h := &t.hits[i]
	scale := int(t.tokens[h.first].scale)
	for j := range t.hits[:i] {
		if t.hits[j].pattern == h.pattern {
			return scale / 3
		}
	}
	return scale
}

// context sums the fitted weights of the words and neighbouring words.
func (x *lexicon) context(t *text) scores {
	var s scores
	last, lastScale := softBreak, 0
	for i := range t.tokens[:t.n] {
		tok := &t.tokens[i]
		scale := int(tok.scale)
		if tok.term >= 0 {
			s.add(&x.single[tok.term], scale)
		}
		if last > softBreak && last != unknown && tok.term > softBreak && tok.term != unknown {
			if w := x.pairs[pairKey(last, tok.term)]; w != nil {
				s.add(w, min(scale, lastScale))
			}
		}
		last, lastScale = tok.term, scale
	}
	return s
}

func (s *scores) add(w *weights, scale int) {
	for class := range s {
		s[class] += int(w[class]) * scale
	}
}

// resolve picks the class with the most evidence. On a tie the earlier one
// wins, at Low.
func resolve(s *scores) spend.Resolution {
	best := 0
	for class := 1; class < noneClass; class++ {
		if s[class] > s[best] {
			best = class
		}
	}
	margin := s[best] - s[noneClass]
	if margin <= 0 {
		return spend.Resolution{Type: spend.Spend, Confidence: spend.Low}
	}
	for class := range noneClass {
		if class != best {
			margin = min(margin, s[best]-s[class])
		}
	}
	r := spend.Resolution{Type: spend.ActionTypes[best], Confidence: spend.Low}
	switch {
	case margin >= highMargin:
		r.Confidence = spend.High
	case margin >= mediumMargin:
		r.Confidence = spend.Medium
	}
	return r
}
