package intent

import (
	"cmp"
	"slices"

	"spendgate/hotpath/spend"
)

// Explanation is a resolution and what decided it.
type Explanation struct {
	spend.Resolution

	// Scores are the points of each action type, in the order of
	// spend.ActionTypes, and None those of "no financial action at all". Ten
	// points are one unit of log-odds.
	Scores [len(spend.ActionTypes)]float64
	None   float64

	// Evidence is what the points came from, the weightiest first.
	Evidence []Evidence
}

// Evidence is a word or phrase that counted.
type Evidence struct {
	Text   string           // as it stands in the reason text
	Type   spend.ActionType // what it is evidence for; Unspecified: no financial action
	Points float64          // less than zero: evidence against
	Note   Note
}

// Note says how a piece of evidence came to count as it does.
type Note string

// The notes.
const (
	NotePlain     Note = "lexicon"
	NoteDenied    Note = "lexicon, denied by a negation"
	NoteReduced   Note = "lexicon, outweighed by its place in the sentence"
	NoteCorrected Note = "lexicon, misspelling corrected"
	NoteContext   Note = "context, fitted to the corpus"
	NoteTurn      Note = "turns or bounds the sense of its neighbours"
)

// leastPoints is what context must weigh to be mentioned.
const leastPoints = 3

// Explain returns the answer of Classify together with the words and phrases that
// decided it. It costs more than Classify and is for people to read.
func (c *Classifier) Explain(reason string) Explanation {
	x := c.lexicon
	var t text
	x.read(&t, reason)
	s := x.score(&t)
	e := Explanation{Resolution: resolve(&s), None: float64(s[noneClass]) / full}
	for class := range e.Scores {
		e.Scores[class] = float64(s[class]) / full
	}
	for i := range t.hits[:t.hitCount] {
		e.Evidence = append(e.Evidence, t.explainHit(reason, i))
	}
	e.Evidence = x.explainContext(&t, reason, e.Evidence)
	slices.SortStableFunc(e.Evidence, func(a, b Evidence) int {
		return cmp.Compare(max(b.Points, -b.Points), max(a.Points, -a.Points))
	})
	return e
}

func (t *text) explainHit(reason string, i int) Evidence {
	h := &t.hits[i]
	first, last := &t.tokens[h.first], &t.tokens[h.last]
	e := Evidence{Text: reason[first.start:last.end], Note: NotePlain}
	if h.pattern.cue != noCue || h.pattern.weights == (weights{}) {
		e.Note = NoteTurn
		return e
	}
	scale := t.hitScale(i)
	e.Type = typeOf(h.pattern.class)
	e.Points = float64(int(h.pattern.weights[h.pattern.class])*scale) / full
	switch {
	case scale < 0:
		e.Note = NoteDenied
	case scale < full:
		e.Note = NoteReduced
	}
	for _, tok := range t.tokens[h.first : h.last+1] {
		if tok.fixed && e.Note == NotePlain {
			e.Note = NoteCorrected
		}
	}
	return e
}

// explainContext adds the fitted weights, each for the class it favours most.
func (x *lexicon) explainContext(t *text, reason string, all []Evidence) []Evidence {
	add := func(w *weights, scale int, start, end int32) {
		best := 0
		for class := range w {
			if w[class] > w[best] {
				best = class
			}
		}
		if int(w[best]) < leastPoints {
			return
		}
		all = append(all, Evidence{
			Text:   reason[start:end],
			Type:   typeOf(best),
			Points: float64(int(w[best])*scale) / full,
			Note:   NoteContext,
		})
	}
	for i := range t.tokens[:t.n] {
		tok := &t.tokens[i]
		if tok.term >= 0 {
			add(&x.single[tok.term], int(tok.scale), tok.start, tok.end)
		}
		if i == 0 {
			continue
		}
		if before := &t.tokens[i-1]; before.term > softBreak && tok.term > softBreak {
			if w := x.pairs[pairKey(before.term, tok.term)]; w != nil {
				add(w, int(min(tok.scale, before.scale)), before.start, tok.end)
			}
		}
	}
	return all
}

func typeOf(class int) spend.ActionType {
	if class == noneClass {
		return spend.Unspecified
	}
	return spend.ActionTypes[class]
}
