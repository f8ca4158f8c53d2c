package client

import (
	"context"
	"encoding/json"
	"iter"
	"maps"

	"spendgate/hotpath/wire"
)

// Raw is the JSON as received: an answer, or an element of a list. It has all members, including
// null ones and those of later versions that have no fields here.
type Raw struct {
	Body []byte `json:"-"`
}

// JSON returns Body.
func (r Raw) JSON() []byte { return r.Body }

func (r *Raw) accept(from reply) error { return r.take(from, true, "") }

// take keeps the JSON of an answer that has the members of what was asked for; otherwise the error says what it is not.
func (r *Raw) take(from reply, complete bool, otherwise string) error {
	if !complete {
		return misunderstood(otherwise)
	}
	r.Body = from.body
	return nil
}

// Page is one page of a list.
type Page[T any] struct {
	Data       []T             `json:"data"`
	Pagination wire.Pagination `json:"pagination"`

	Raw
}

func (p *Page[T]) accept(from reply) error {
	if err := acceptAll(p.Data, from.body); err != nil {
		return err
	}
	p.Body = from.body
	return nil
}

// acceptAll gives each element of a page its JSON as received.
func acceptAll[T any](data []T, body []byte) error {
	var came struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := decode(body, &came); err != nil {
		return err
	}
	for i := range data {
		element, ok := any(&data[i]).(interface{ accept(from reply) error })
		if !ok {
			continue
		}
		if err := element.accept(reply{body: came.Data[i], listed: true}); err != nil {
			return err
		}
	}
	return nil
}

// pages yields the elements of all pages of a list. An error is the last that it yields.
func pages[T any](ctx context.Context, c *Client, r request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := r // each reading begins with the first page
		r.query = maps.Clone(r.query)
		for at := ""; ; {
			page, err := fetch[Page[T]](ctx, c, r)
			if err == nil && page.Pagination.HasMore && (page.Pagination.NextCursor == "" || page.Pagination.NextCursor == at) {
				err = misunderstood("there are more pages and no way to them")
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, element := range page.Data {
				if !yield(element, nil) {
					return
				}
			}
			if !page.Pagination.HasMore {
				return
			}
			at = page.Pagination.NextCursor
			r.query.Set("cursor", at)
		}
	}
}

func asAdmin(r request) request {
	r.admin = true
	return r
}

// wholePages is find of a list that is read to its end.
func wholePages(path string, query any) request {
	r := find(path, query)
	r.query.Set("limit", "100")
	return r
}
