package intent

import "unicode/utf8"

// Bounds on the work for one text. A reason_text has at most 4,096 characters; of a long one the
// beginning and the end are read, where people say what they want.
const (
	maxTokens   = 288
	headTokens  = 192
	headBytes   = 2560
	tailBytes   = 288
	maxHits     = 96
	maxTypos    = 24 // unknown words looked up as misspellings
	maxWordSize = 24
)

// token is a word, number or break of the text.
type token struct {
	term       term
	start, end int32 // bytes of the text
	hit        int16 // the hit that uses it, or -1
	scale      int8  // how much its evidence counts, in eighths
}

// text is the working memory of one classification. It lives on the stack.
type text struct {
	tokens   [maxTokens]token
	n        int
	hits     [maxHits]hit
	hitCount int
	typos    int
}

// scan splits s into tokens.
func (x *lexicon) scan(t *text, s string) {
	head := min(len(s), headBytes)
	for head < len(s) && head > headBytes-utf8.UTFMax && !utf8.RuneStart(s[head]) {
		head--
	}
	stop := x.scanRange(t, s[:head], 0, headTokens)
	if stop >= len(s) {
		return
	}
	if tail := len(s) - tailBytes; tail > stop {
		stop = tail
		for stop < len(s) && !utf8.RuneStart(s[stop]) {
			stop++
		}
	}
	t.add(hardBreak, stop, stop)
	x.scanRange(t, s, stop, maxTokens)
}

// scanRange scans from byte i until limit tokens are there or the text ends,
// and returns where it stopped.
func (x *lexicon) scanRange(t *text, s string, i, limit int) int {
	for i < len(s) && t.n < limit {
		b := s[i]
		switch {
		case isDigit(b):
			i = t.scanNumber(s, i)
		case isLetter(b) || b >= utf8.RuneSelf:
			i = x.scanWord(t, s, i)
		default:
			if kind := breakAt(s, i); kind != 0 {
				t.addBreak(kind, i)
			} else if b == '%' && t.n > 0 && t.tokens[t.n-1].term == number && i-int(t.tokens[t.n-1].end) <= 1 {
				t.tokens[t.n-1].term = percentage
				t.tokens[t.n-1].end = int32(i + 1)
			}
			i++
		}
	}
	return i
}

// scanNumber takes digits with their separators as one token. Letters that
// follow at once ("20bucks", "10pct") are a word of their own.
func (t *text) scanNumber(s string, i int) int {
	start := i
	for i < len(s) && (isDigit(s[i]) || (s[i] == '.' || s[i] == ',') && i+1 < len(s) && isDigit(s[i+1])) {
		i++
	}
	// A run of numbers is one: "2026-04-01" says no more than "2026".
	if t.n == 0 || t.tokens[t.n-1].term != number {
		t.add(number, start, i)
	} else {
		t.tokens[t.n-1].end = int32(i)
	}
	return i
}

// word is a word being scanned, folded to plain lower case.
type word struct {
	buf   [maxWordSize]byte
	n     int
	end   int // in the text
	lower bool
	hump  int // where in the text lower case changes to upper, or 0
	humpN int // what n was there
}

// scanWord takes a word: letters, with apostrophes dropped ("don't" is "dont").
// A change from lower to upper case ends it, so that issueRefund is two words,
// unless the whole is one that is known (PayPal).
func (x *lexicon) scanWord(t *text, s string, i int) int {
	var w word
	start := i
	for i < len(s) {
		next, ok := w.take(s, i)
		if !ok {
			break
		}
		i = next
	}
	if w.n == 0 { // no letter: an emoji, a sign, or only marks
		if i == start {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == '–' || r == '—' || r == '…' {
				t.addBreak(softBreak, i)
			}
			i += size
		}
		return i
	}
	if w.hump > 0 && !x.has(&w) {
		w.n, w.end, i = w.humpN, w.hump, w.hump
	}
	if t.n < maxTokens {
		t.add(x.lookup(t, w.buf[:w.n]), start, w.end)
	}
	return i
}

// take adds the character at i to the word unless it belongs to none.
func (w *word) take(s string, i int) (next int, ok bool) {
	b := s[i]
	switch {
	case b >= 'a' && b <= 'z':
		w.lower = true
	case b >= 'A' && b <= 'Z':
		if w.lower && w.hump == 0 {
			w.hump, w.humpN = i, w.n
		}
		b |= 0x20
	case b == '\'':
		return i + 1, w.n > 0 && i+1 < len(s) && isLetter(s[i+1])
	case b < utf8.RuneSelf:
		return i, false
	default:
		r, size := utf8.DecodeRuneInString(s[i:])
		n := foldRune(&w.buf, w.n, r)
		if n < 0 {
			return i, false
		}
		w.n, w.end = n, i+size
		return i + size, true
	}
	if w.n < len(w.buf) {
		w.buf[w.n] = b
		w.n++
	}
	w.end = i + 1
	return i + 1, true
}

// has reports whether the whole word is in the vocabulary.
func (x *lexicon) has(w *word) bool {
	buf := w.buf
	_, ok := x.terms[string(stem(buf[:w.n]))]
	return ok
}

// lookup returns the term of a lower-case word, which it may overwrite.
func (x *lexicon) lookup(t *text, w []byte) term {
	var whole [maxWordSize]byte
	n := copy(whole[:], w)
	if id, ok := x.terms[string(stem(w))]; ok {
		return id
	}
	if n < minTypo || t.typos >= maxTypos {
		return unknown
	}
	t.typos++
	return x.typos.correct(whole[:n])
}

func (t *text) add(id term, start, end int) {
	if t.n < maxTokens {
		t.tokens[t.n] = token{term: id, start: int32(start), end: int32(end), hit: -1, scale: full}
		t.n++
	}
}

// addBreak adds a break unless there is one; the harder of two stays.
func (t *text) addBreak(kind term, at int) {
	if t.n > 0 && t.tokens[t.n-1].term <= softBreak {
		if kind == hardBreak {
			t.tokens[t.n-1].term = kind
		}
		return
	}
	t.add(kind, at, at)
}

// breakAt returns the kind of break at byte i, 0 for none. A full stop counts only at the end of a
// word, a dash only between blanks ("e-gift", "10.5").
func breakAt(s string, i int) term {
	after := i+1 >= len(s) || s[i+1] == ' ' || s[i+1] == '\n'
	switch s[i] {
	case '.':
		if after {
			return hardBreak
		}
	case '!', '?', ';', '\n', '|':
		return hardBreak
	case ',', ':', '(', ')', '{', '}', '[', ']', '=':
		return softBreak
	case '-', '>':
		if after && i > 0 && (s[i-1] == ' ' || s[i-1] == '-') {
			return softBreak
		}
	}
	return 0
}

func isDigit(b byte) bool  { return b >= '0' && b <= '9' }
func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
