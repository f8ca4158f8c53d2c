package intent

// minTypo is the shortest word that is looked up as a misspelling: of shorter
// ones, too many are other words.
const minTypo = 4

// farTypo is the length from which a word may be two edits away. Long words
// have few similar words and more misspelt letters.
const farTypo = 9

// firmTypo is the length below which a misspelling must keep the first letter.
const firmTypo = 7

// typoIndex finds the lexicon word that a misspelling means. Each word is indexed
// under every form with one letter deleted; two words that differ by one edit
// share such a form.
type typoIndex struct {
	forms   []typoForm
	deleted map[string][]int32 // by a form with a letter less, or whole
	far     [26][]int32        // long forms, by first letter
	real    map[string]bool    // real words that look like misspellings
}

type typoForm struct {
	word string
	term term
}

func newTypoIndex() typoIndex {
	return typoIndex{deleted: make(map[string][]int32), real: make(map[string]bool)}
}

func (x *typoIndex) add(form string, t term) {
	id := int32(len(x.forms))
	x.forms = append(x.forms, typoForm{form, t})
	x.deleted[form] = append(x.deleted[form], id)
	for i := range len(form) {
		if i > 0 && form[i] == form[i-1] {
			continue
		}
		k := form[:i] + form[i+1:]
		x.deleted[k] = append(x.deleted[k], id)
	}
	if len(form) >= farTypo {
		x.far[form[0]-'a'] = append(x.far[form[0]-'a'], id)
	}
}

// protect keeps a real word from being corrected.
func (x *typoIndex) protect(word string) { x.real[word] = true }

// correct returns the term of the lexicon word nearest to w, unknown if none is near.
func (x *typoIndex) correct(w []byte) term {
	if x.real[string(w)] {
		return unknown
	}
	best, bestDistance := int32(-1), 2
	consider := func(ids []int32) {
		for _, id := range ids {
			if form := x.forms[id].word; len(form) < firmTypo && form[0] != w[0] {
				continue
			}
			if d := distance(w, x.forms[id].word); d < bestDistance {
				best, bestDistance = id, d
			}
		}
	}
	consider(x.deleted[string(w)])
	var buf [maxWordSize]byte
	for i := range w {
		if best >= 0 {
			break
		}
		n := copy(buf[:], w[:i])
		n += copy(buf[n:], w[i+1:])
		if ids := x.deleted[string(buf[:n])]; ids != nil {
			consider(ids)
		}
	}
	if c := w[0] - 'a'; best < 0 && len(w) >= farTypo-1 && c < 26 {
		bestDistance = 3
		consider(x.far[c])
	}
	if best < 0 {
		return unknown
	}
	return x.forms[best].term
}

// distance counts the edits between a and b (a letter more, less or another,
// two neighbours swapped), or returns 3 when there are more than two.
func distance(a []byte, b string) int {
	const tooFar = 3
	if d := len(a) - len(b); d > 2 || d < -2 || len(b) > maxWordSize {
		return tooFar
	}
	var rows [3][maxWordSize + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			v := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				v = min(v, before[j-2]+1)
			}
			row[j] = v
			least = min(least, v)
		}
		if least >= tooFar {
			return tooFar
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
