package httpapi

// The sizes of a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// noTotal is the total of a listing that tells none.
const noTotal = -1

// answerPage answers with a page of records. The next one begins at the position of
// the last of them, nil of none.
func answerPage[T any](x *exchange, page []T, record func(dst []byte, r *T) []byte, position func(r *T) string,
	more bool, filters filterSum, total int64,
) error {
	o := newObject(x.out)
	o.name("data")
	o = appendArray(o, len(page), func(dst []byte, i int) []byte { return record(dst, &page[i]) })
	o.name("pagination")
	p := newObject(o)
	if more {
		var last *T
		if n := len(page); n > 0 {
			last = &page[n-1]
		}
		p.text("next_cursor", newCursor(position(last), filters))
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
