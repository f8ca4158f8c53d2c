package intent

// cueKind is the effect of a cue on the evidence around it.
type cueKind uint8

const (
	noCue      cueKind = iota
	cueNot             // denies what follows, across words that carry no sense
	cueRefuse          // denies what follows, else what precedes
	cueSwap            // denies the next evidence, wherever: "instead of asking for a ..."
	cueFailed          // denies what precedes: "refund not possible"
	cueBut             // evidence after it counts more than evidence before
	cueAsk             // a request, which counts less than a decision after it
	cueInstead         // the clause of the cue says what is to be done
	cueCause           // a reason follows, not the action
)

var cueKinds = map[string]cueKind{
	"not": cueNot, "refuse": cueRefuse, "swap": cueSwap, "prefer": cueSwap, "failed": cueFailed,
	"but": cueBut, "ask": cueAsk, "instead": cueInstead, "cause": cueCause,
}

// turns reports whether a phrase cannot reach over the cue.
func (k cueKind) turns() bool {
	return k == cueNot || k == cueRefuse || k == cueSwap || k == cueBut || k == cueInstead
}

// The scales of evidence, in eighths.
const (
	full      = 8
	headScale = 10 // the first action named is mostly the one that is meant
	outdated  = 4  // before "but"
	elsewhere = 5  // outside the clause with "instead"
	asked     = 3  // asked for, not decided
	reason    = 5  // inside a cause
	denied    = -4 // evidence against, half as strong as evidence for
)

// How many tokens a cue reaches over.
const (
	reachForward = 8
	reachBack    = 6
)

// applyCues scales the tokens of t by the cues in it.
func (x *lexicon) applyCues(t *text) {
	for i := range t.hits[:t.hitCount] {
		h := &t.hits[i]
		switch h.pattern.cue {
		case cueNot:
			if !x.reportsOmission(t, h) {
				t.deny(x, x.ahead(t, h, false))
			}
		case cueRefuse:
			if target := x.ahead(t, h, false); target != nil {
				t.deny(x, target)
			} else {
				t.denyBefore(h)
			}
		case cueSwap:
			t.deny(x, x.ahead(t, h, true))
		case cueFailed:
			t.denyBefore(h)
		default: // below
		}
	}
	for i := range t.hits[:t.hitCount] {
		h := &t.hits[i]
		switch h.pattern.cue {
		case cueCause:
			t.applyCause(h)
		case cueBut:
			if t.affirmed(int(h.last)+1, t.n) {
				t.rescale(0, int(h.first), outdated)
			}
		case cueInstead:
			t.applyInstead(h)
		default: // above
		}
	}
	for i := range t.hits[:t.hitCount] {
		if h := &t.hits[i]; h.pattern.cue == cueAsk {
			t.applyAsk(h, x.ahead(t, h, true))
		}
	}
	t.favourHead()
}

// reportsOmission reports whether the text is like "was not refunded", "has not been credited", which
// describes what is still to be done and not what must not be done.
func (x *lexicon) reportsOmission(t *text, h *hit) bool {
	if h.first == 0 {
		return false
	}
	before := t.tokens[h.first-1].term
	return before >= 0 && x.groups[before]&x.past != 0
}

// ahead finds the evidence that a cue governs. Unless far, only words without a sense of their own may
// come between: "do not give her a refund" denies the refund, "item not working refund it" does not.
func (x *lexicon) ahead(t *text, h *hit, far bool) *hit {
	end := min(int(h.last)+1+reachForward, t.n)
	for i := int(h.last) + 1; i < end; i++ {
		tok := &t.tokens[i]
		if tok.term <= softBreak {
			return nil
		}
		if tok.hit >= 0 {
			target := &t.hits[tok.hit]
			if target.pattern.strong() {
				return target
			}
			if target.pattern.cue != noCue && (far || target.pattern.cue == cueAsk || target.pattern.cue == cueCause) {
				continue
			}
		}
		thin := tok.term < unknown || tok.term >= 0 && x.groups[tok.term]&x.thin != 0
		if !thin && !far {
			return nil
		}
	}
	return nil
}

// deny reverses the evidence of target and its continuation.
func (t *text) deny(x *lexicon, target *hit) {
	if target == nil {
		return
	}
	end := int(target.last)
	idle, linked := 0, false
	for i := end + 1; i < t.n && idle < 3; i++ {
		tok := &t.tokens[i]
		if tok.term <= softBreak {
			break
		}
		if tok.hit < 0 {
			idle++
			linked = tok.term >= 0 && x.groups[tok.term]&x.or != 0
			continue
		}
		h := &t.hits[tok.hit]
		if h.pattern.cue.turns() || h.pattern.cue == cueCause {
			break
		}
		if h.pattern.strong() && h.pattern.class != target.pattern.class && !linked {
			break
		}
		if h.pattern.strong() {
			end, idle = i, 0
		}
	}
	t.rescale(int(target.first), end+1, denied)
}

// denyBefore turns the nearest evidence before the cue around.
func (t *text) denyBefore(cue *hit) {
	from := max(int(cue.first)-reachBack, 0)
	for i := int(cue.first) - 1; i >= from; i-- {
		tok := &t.tokens[i]
		if tok.term <= softBreak {
			return
		}
		if tok.hit < 0 {
			continue
		}
		target := &t.hits[tok.hit]
		if target.pattern.cue == cueCause {
			return // "the discount that was not applied" describes, it denies nothing
		}
		if target.pattern.strong() {
			t.rescale(int(target.first), int(target.last)+1, denied)
			return
		}
	}
}

// clause returns the tokens around i up to the next breaks.
func (t *text) clause(i int) (from, to int) {
	from, to = i, i
	for from > 0 && t.tokens[from-1].term > softBreak && !t.isBut(from-1) {
		from--
	}
	for to < t.n && t.tokens[to].term > softBreak && (to == i || !t.isBut(to)) {
		to++
	}
	return from, to
}

func (t *text) isBut(i int) bool {
	h := t.tokens[i].hit
	return h >= 0 && t.hits[h].pattern.cue == cueBut
}

func (t *text) applyCause(h *hit) {
	_, to := t.clause(int(h.last))
	from := int(h.last) + 1
	if t.affirmed(0, int(h.first)) || t.affirmed(to, t.n) {
		t.rescale(from, to, reason)
	}
}

func (t *text) applyInstead(h *hit) {
	from, to := t.clause(int(h.first))
	if t.affirmed(from, to) {
		t.rescale(0, from, elsewhere)
		t.rescale(to, t.n, elsewhere)
	}
}

// applyAsk reduces the weight of a request when another decision follows in a later clause.
func (t *text) applyAsk(cue, target *hit) {
	if target == nil {
		return
	}
	_, to := t.clause(int(target.last))
	for i := to; i < t.n; i++ {
		tok := &t.tokens[i]
		if tok.hit < 0 || tok.scale < full {
			continue
		}
		if p := t.hits[tok.hit].pattern; p.strong() && p.class != target.pattern.class && p.weights[p.class] >= 25 {
			t.rescale(int(cue.first), int(target.last)+1, asked)
			return
		}
	}
}

func (t *text) favourHead() {
	for i := range t.hits[:t.hitCount] {
		h := &t.hits[i]
		if h.pattern.strong() && h.pattern.weights[h.pattern.class] >= 25 && t.tokens[h.first].scale == full {
			t.rescale(int(h.first), int(h.last)+1, headScale)
			return
		}
	}
}

// affirmed reports whether strong evidence that is not denied stands there.
func (t *text) affirmed(from, to int) bool {
	for i := from; i < to; i++ {
		tok := &t.tokens[i]
		if tok.hit >= 0 && tok.scale > 0 && t.hits[tok.hit].pattern.strong() {
			return true
		}
	}
	return false
}

// rescale multiplies the weights of the tokens. Denied evidence stays denied.
func (t *text) rescale(from, to int, scale int8) {
	for i := from; i < to; i++ {
		s := &t.tokens[i].scale
		switch {
		case scale < 0:
			*s = denied
		case *s > 0:
			*s = max(1, int8(int(*s)*int(scale)/full))
		}
	}
}
