package httpapi

// The sizes of a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// noTotal is the total of a listing that tells none.
const noTotal = -1

// answerPage answers with a page of records. The next one begins at the position of
// the last of them.
func answerPage[T any](x *exchange, page []T, record func(dst []byte, r *T) []byte, position func(r *T) string,
	more bool, filters filterSum, total int64,
) error {
	next := ""
	if n := len(page); more && n > 0 {
		next = position(&page[n-1])
	}
	o := newObject(x.out)
	o.name("data")
	o = appendArray(o, len(page), func(dst []byte, i int) []byte { return record(dst, &page[i]) })
	o.name("pagination")
	p := newObject(o)
	if more {
		p.text("next_cursor", newCursor(next, filters))
	} else {
		p.null("next_cursor")
	}
	p.boolean("has_more", more)
	if total != noTotal {
		p.integer("total_count", total)
	}
	o = p.end()
	x.out = o.end()
	return x.answer(200)
}
