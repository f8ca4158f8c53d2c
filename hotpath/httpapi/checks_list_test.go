package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// longTrail is a store of many checks, newest first, some of them of the last 24 hours. Their
// idempotency keys are their places.
type longTrail struct {
	fakeStore
	checks []*spend.Check
	recent map[string]int
}

func (s *longTrail) ListChecks(_ context.Context, q audit.CheckQuery) (page audit.CheckPage, err error) {
	low, end := q.IDRange()
	for _, c := range s.checks {
		if c.ID.Compare(end) >= 0 || c.ID.Compare(low) < 0 {
			continue
		}
		if q.Examine--; q.Examine < 0 {
			page.More = true
			break
		}
		if page.Next = c.ID; q.IdempotencyKey == "" || q.IdempotencyKey == c.Action.IdempotencyKey {
			page.Checks = append(page.Checks, c)
		}
		if page.Cut(q.Limit); page.More {
			break
		}
	}
	return page, nil
}

func (s *longTrail) CheckIDsByKey(_ context.Context, hashes []spend.Hash) (map[spend.Hash]spend.ID, error) {
	found := make(map[spend.Hash]spend.ID)
	for key, i := range s.recent {
		if hash := spend.HashKey(key); slices.Contains(hashes, hash) {
			found[hash] = s.checks[i].ID
		}
	}
	return found, nil
}

// A check is found by its idempotency key at once, however many are newer. Once the key has
// expired, a walk finds it, with many empty pages. Either way it is found once.
func TestChecksByIdempotencyKey(t *testing.T) {
	const n = 3*maxExamined + 7
	trail := &longTrail{recent: map[string]int{"recent": 2*maxExamined + 1, "new": 3}}
	for i := range n {
		c := allowedCheck()
		c.ID = testID(instant + n - int64(i))
		trail.checks = append(trail.checks, c)
	}
	for key, places := range map[string][]int{
		"recent": {2*maxExamined + 1, 2*maxExamined + 9}, "expired": {maxExamined + 5, n - 1}, "new": {3}, "never": nil,
	} {
		for _, i := range places {
			trail.checks[i].Action.IdempotencyKey = key
		}
	}
	s := start(t, func(o *Options) { o.Store = trail })
	for key, want := range map[string]string{
		"recent": "[[10001] [] [10009] []]", "expired": "[[] [5005] [] [15006]]", "new": "[[3] [] [] []]", "never": "[[] [] [] []]",
	} {
		var pages [][]int
		for cursor, more := "", true; more && len(pages) < 9; {
			a := s.do("GET", "/v1/checks?idempotency_key="+key+"&cursor="+url.QueryEscape(cursor), "")
			var page struct {
				Data []struct {
					ID string `json:"check_id"`
				}
				Pagination struct {
					Next string `json:"next_cursor"`
					More bool   `json:"has_more"`
				}
			}
			if err := json.Unmarshal([]byte(a.body), &page); a.status != 200 || err != nil {
				t.Fatalf("%d %s", a.status, a.body)
			}
			found := []int{}
			for _, d := range page.Data {
				found = append(found, slices.IndexFunc(trail.checks, func(c *spend.Check) bool { return c.ID.Text(spend.PrefixCheck) == d.ID }))
			}
			pages, cursor, more = append(pages, found), page.Pagination.Next, page.Pagination.More
		}
		if got := fmt.Sprint(pages); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
