package e2e_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// ok ends the test unless the status is the given one.
func ok(t *testing.T, a fleet.Answer, status int) fleet.Answer {
	t.Helper()
	if a.Status != status {
		t.Fatalf("answered %s; want %d", a, status)
	}
	return a
}

// check posts a check that must be answered 200.
func check(t *testing.T, c *fleet.Client, a fleet.Action) fleet.Answer {
	t.Helper()
	return ok(t, must.Get(c.Check(t.Context(), a))(t), http.StatusOK)
}

// together calls f n times at once and returns the answers.
func together(t *testing.T, n int, f func(i int) (fleet.Answer, error)) []fleet.Answer {
	t.Helper()
	answers, failures := make([]fleet.Answer, n), make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			answers[i], failures[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	for _, err := range failures {
		must.Do(t, err)
	}
	return answers
}

// rows returns the recorded checks that satisfy a condition.
func (s *suite) rows(t *testing.T, condition string, args ...any) []fleet.Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return must.Get(s.Postgres.Rows(ctx, condition, args...))(t)
}

// named returns the check that a duplicate's message names.
func named(t *testing.T, r fleet.Result) string {
	t.Helper()
	if r.Message == nil {
		t.Fatal("a duplicate without message")
	}
	id := regexp.MustCompile(`chk_[0-9a-f]{32}`).FindString(*r.Message)
	if id == "" {
		t.Fatalf("a duplicate that names no check: %s", *r.Message)
	}
	return id
}

// eventually polls until done.
func eventually(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// logs waits until a node's log, which is written in the background, has a text.
func logs(t *testing.T, n *fleet.Node, text string) {
	t.Helper()
	eventually(t, patience, n.Name+" logs "+text, func() bool { return strings.Contains(n.Log(), text) })
}

func limited(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
