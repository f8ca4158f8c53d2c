package intent

import "unicode"

// foldTable has plain letters for U+00C0 to U+017F, a column per code point;
// a blank means that the character is no letter.
const foldTable = "aaaaaaaceeeeiiii" + "dnooooo ouuuuyts" +
	"aaaaaaaceeeeiiii" + "dnooooo ouuuuyty" +
	"aaaaaaccccccccdd" + "ddeeeeeeeeeegggg" +
	"gggghhhhiiiiiiii" + "iiiijjkkklllllll" +
	"lllnnnnnnnnnoooo" + "oooorrrrrrssssss" +
	"ssttttttuuuuuuuu" + "uuuuwwyyyzzzzzzs"

// foldRune appends r to the word in plain lower-case letters and returns the new
// length, or -1 when r is part of no word. Invisible characters and combining
// marks are dropped, full-width letters become plain; letters of other scripts
// make an unknown word.
func foldRune(buf *[maxWordSize]byte, n int, r rune) int {
	put := func(b byte) int {
		if n < len(buf) {
			buf[n] = b
			n++
		}
		return n
	}
	switch {
	case r == '’' || r == 'ʼ' || r == '\u00ad' || r >= '\u200b' && r <= '\u200d' || r == '\ufeff' || r >= '\u0300' && r <= '\u036f':
		return n
	case r >= 0xC0 && r <= 0x17F:
		if b := foldTable[r-0xC0]; b != ' ' {
			return put(b)
		}
		return -1
	case r >= 'Ａ' && r <= 'Ｚ':
		return put(byte(r-'Ａ') + 'a')
	case r >= 'ａ' && r <= 'ｚ':
		return put(byte(r-'ａ') + 'a')
	case r > 0x17F && unicode.IsLetter(r):
		// One placeholder a letter keeps the length without the bytes.
		return put('~')
	}
	return -1
}
