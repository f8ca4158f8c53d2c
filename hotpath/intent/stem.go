package intent

// stem cuts the inflections of a lower-case word: plural, -ed, -ing and a
// final e. It is deliberately lighter than a full stemmer: "pay" and "payment",
// or "return" and "returnable", are different evidence. The result aliases w.
func stem(w []byte) []byte {
	n := len(w)
	if n < 4 {
		return w
	}
	if w[n-1] == 's' && w[n-2] != 's' && w[n-2] != 'u' && w[n-2] != 'i' {
		if n > 4 && w[n-2] == 'e' && w[n-3] == 'i' {
			w[n-3] = 'y'
			return w[:n-2]
		}
		w = w[:n-1]
		n--
	}
	switch {
	case n > 5 && w[n-1] == 'g' && w[n-2] == 'n' && w[n-3] == 'i' && hasVowel(w[:n-3]):
		return undouble(w[:n-3])
	case n > 4 && w[n-1] == 'd' && w[n-2] == 'e' && w[n-3] != 'e' && hasVowel(w[:n-2]):
		return undouble(w[:n-2])
	case n > 3 && w[n-1] == 'e' && w[n-2] != 'e':
		return w[:n-1]
	}
	return w
}

func hasVowel(w []byte) bool {
	for _, b := range w {
		switch b {
		case 'a', 'e', 'i', 'o', 'u', 'y':
			return true
		}
	}
	return false
}

// undouble turns shipp(ed) into ship and cancell(ed) into cancel, so that both
// spellings meet, but keeps bill, pass and add.
func undouble(w []byte) []byte {
	n := len(w)
	if n < 4 || w[n-1] != w[n-2] {
		if n > 3 && w[n-1] == 'e' {
			return w[:n-1]
		}
		return w
	}
	switch w[n-1] {
	case 's', 'z', 'd', 'f':
		return w
	case 'l':
		if n < 6 {
			return w
		}
	}
	return w[:n-1]
}
