package httpapi

import "spendgate/hotpath/wire"

// The sizes of a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// listing is a page of the records of a list.
type listing[T, W any] struct {
	page     []T
	record   func(r *T) W      // as it is shown
	position func(r *T) string // at which the next page begins, by the last record of this one; nil of an empty page
	more     bool
	filters  filterSum
	total    *int64 // nil in a list without a total
}

// answer answers with the page.
func (l listing[T, W]) answer(x *exchange) error {
	x.out = append(x.out, `{"data":[`...)
	var shown W
	for i := range l.page {
		shown = l.record(&l.page[i])
		x.out = wire.Append(between(x.out), &shown, x.textAmounts)
	}
	at := wire.Position{HasMore: l.more}
	if l.more {
		var last *T
		if n := len(l.page); n > 0 {
			last = &l.page[n-1]
		}
		at.NextCursor = newCursor(l.position(last), l.filters)
	}
	x.out = append(x.out, `],"pagination":`...)
	if l.total == nil {
		x.out = wire.Append(x.out, &at, false)
	} else {
		x.out = wire.Append(x.out, &wire.Pagination{Position: at, TotalCount: *l.total}, false)
	}
	x.out = append(x.out, '}')
	return x.answer(200)
}

// reply returns a function that answers with the result of an operation.
func reply[T, W any](x *exchange, status int, shown func(T) W) func(T, error) error {
	return func(result T, err error) error {
		if err != nil {
			return err
		}
		return respond(x, status, shown(result))
	}
}

// replyOnce is reply for what is done once. A repetition is named in a header and has status 200.
func replyOnce[T, W any](x *exchange, status int, shown func(T) W) func(T, bool, error) error {
	return func(result T, replayed bool, err error) error {
		if err == nil && replayed {
			x.setReplayed(true)
			status = 200
		}
		return reply(x, status, shown)(result, err)
	}
}

// respond answers with a structure of the interface.
func respond[T any](x *exchange, status int, shown T) error {
	x.out = wire.Append(x.out, &shown, x.textAmounts)
	return x.answer(status)
}
