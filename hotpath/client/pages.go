package client

import (
	"context"
	"iter"
	"strconv"
)

// Page is one page of a list.
type Page[T any] struct {
	Data       []T        `json:"data"`
	Pagination Pagination `json:"pagination"`

	Body []byte `json:"-"` // the answer as it came
}

// Pagination is the position of a page.
type Pagination struct {
	NextCursor string `json:"next_cursor,omitempty"` // empty on the last page
	HasMore    bool   `json:"has_more"`
	TotalCount int64  `json:"total_count"` // of all pages; 0 in a list that has none
}

func (p *Page[T]) accept(from reply) error {
	for i := range p.Data {
		if element, ok := any(&p.Data[i]).(interface{ accept(from reply) error }); ok {
			if err := element.accept(reply{}); err != nil {
				return err
			}
		}
	}
	p.Body = from.body
	return nil
}

// pages yields the elements of all pages from a cursor on.
func pages[T any](ctx context.Context, c *Client, cursor string, request func(cursor string) request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := cursor; ; {
			page, err := fetch[Page[T]](ctx, c, request(at))
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
		}
	}
}

func optionalInt(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
