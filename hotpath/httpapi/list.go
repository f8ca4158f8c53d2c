package httpapi

// The sizes of a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// listing is a page of the records of a list.
type listing[T any] struct {
	page     []T
	record   func(dst []byte, r *T) []byte
	position func(r *T) string // at which the next page begins, by the last record of this one; nil of an empty page
	more     bool
	filters  filterSum
	total    *int64 // nil in a list without a total
}

// answer answers with the page.
func (l listing[T]) answer(x *exchange) error {
	o := newObject(x.out)
	o.name("data")
	o = appendArray(o, len(l.page), func(dst []byte, i int) []byte { return l.record(dst, &l.page[i]) })
	o.name("pagination")
	p := newObject(o)
	if l.more {
		var last *T
		if n := len(l.page); n > 0 {
			last = &l.page[n-1]
		}
		p.text("next_cursor", newCursor(l.position(last), l.filters))
	} else {
		p.null("next_cursor")
	}
	p.boolean("has_more", l.more)
	if l.total != nil {
		p.integer("total_count", *l.total)
	}
	o = p.end()
	x.out = o.end()
	return x.answer(200)
}
