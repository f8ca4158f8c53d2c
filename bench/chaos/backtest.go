package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// period is how long a version of a policy was the newest.
type period struct {
	PolicyID string
	Version  int
	From, To time.Time
}

// The two longest periods of each policy.
const periodsSQL = `SELECT policy_id, version, created, until FROM (
	SELECT *, row_number() OVER (PARTITION BY policy_id ORDER BY until - created DESC) AS nth FROM (
		SELECT policy_id, version, updated_at AS created, lead(updated_at, 1, now()) OVER (PARTITION BY policy_id ORDER BY version) AS until
		FROM policies
	) AS p
) AS p WHERE nth <= 2`

// among narrows the period to the time in which every check of its policy was judged by its
// version. A check that began before the version is judged by the previous version, and can change
// a replay: had this version asked for the check's approval, a later check could have used it (S47,
// S53).
func (p *period) among(rows []judge.Row) {
	for i := range rows {
		at := time.UnixMilli(rows[i].AtMS)
		switch {
		case rows[i].PolicyID != p.PolicyID || at.Before(p.From) || !at.Before(p.To):
		case rows[i].PolicyVersion < p.Version:
			p.From = at.Add(time.Millisecond)
		case rows[i].PolicyVersion > p.Version:
			p.To = at
		}
	}
}

// backtest replays each of these versions over its own period, and returns the checks that are now
// decided differently, a line each: there must be none (S53).
func (s *deployment) backtest(ctx context.Context, key apiKey, rows []judge.Row) (flipped string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	periods, err := query(ctx, s, periodsSQL, pgx.RowToStructByPos[period])
	if err != nil {
		return "", err
	}
	client := s.Nodes[0].Client(key.raw)
	var begun []string
	for i := range periods {
		p := &periods[i]
		p.among(rows)
		if !p.From.Before(p.To) {
			p.To = p.From.Add(time.Millisecond) // nothing to compare
		}
		var b struct {
			ID string `json:"backtest_id"`
		}
		body := map[string]any{"policy_id": p.PolicyID, "version": p.Version, "from": p.From, "to": p.To}
		if err := ask(ctx, client, http.MethodPost, "/v1/backtests", body, &b); err != nil {
			return "", err
		}
		begun = append(begun, b.ID)
	}
	var text strings.Builder
	checks, compared := 0, 0
	for i, id := range begun {
		n, m, err := flipsOf(ctx, client, id, periods[i], &text)
		if err != nil {
			return "", err
		}
		checks, compared = checks+n, compared+m
	}
	if 2*compared <= checks { // most are decided one after the other
		return "", fmt.Errorf("%d backtests compared %d of %d checks", len(begun), compared, checks)
	}
	return text.String(), nil
}

// flipsOf waits for a backtest and writes its flips.
func flipsOf(ctx context.Context, client *fleet.Client, id string, of period, text *strings.Builder) (checks, compared int, err error) {
	var b struct {
		Status string  `json:"status"`
		Error  *string `json:"error"`
		Report struct {
			Coverage struct {
				Checks, Compared int
			} `json:"coverage"`
		} `json:"report"`
	}
	for b.Status != "succeeded" {
		if err := ask(ctx, client, http.MethodGet, "/v1/backtests/"+id, nil, &b); err != nil {
			return 0, 0, err
		}
		if b.Error != nil {
			return 0, 0, fmt.Errorf("a backtest of %s, version %d: %s", of.PolicyID, of.Version, *b.Error)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for cursor := ""; ; {
		var page struct {
			Data []struct {
				CheckID string `json:"check_id"`
			} `json:"data"`
			Pagination struct {
				Next *string `json:"next_cursor"`
			} `json:"pagination"`
		}
		if err := ask(ctx, client, http.MethodGet, "/v1/backtests/"+id+"/flips?limit=100"+cursor, nil, &page); err != nil {
			return 0, 0, err
		}
		for _, f := range page.Data {
			fmt.Fprintf(text, "%s of %s, version %d, is decided otherwise by the same version\n", f.CheckID, of.PolicyID, of.Version)
		}
		if page.Pagination.Next == nil {
			return b.Report.Coverage.Checks, b.Report.Coverage.Compared, nil
		}
		cursor = "&cursor=" + *page.Pagination.Next
	}
}

// ask sends a request and decodes its 200 or 202.
func ask(ctx context.Context, client *fleet.Client, method, path string, body, into any) error {
	a, err := client.Do(ctx, method, path, body)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK && a.Status != http.StatusAccepted {
		return fmt.Errorf("%s %s: %s", method, path, a)
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("cannot read the answer to %s %s: %w", method, path, err)
	}
	return nil
}
