package e2e_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// stopsIn is how long a node may take to stop (G11).
const stopsIn = 10 * time.Second

// terminated waits for the end of a node that got its SIGTERM at a time.
func terminated(t *testing.T, n *fleet.Node, signalled time.Time) {
	t.Helper()
	code := must.Get(n.Wait(limited(t, patience)))(t)
	if took := time.Since(signalled); code != 0 || took > stopsIn {
		t.Errorf("%s ended after %s with code %d", n.Name, took.Round(time.Millisecond), code)
	}
	n.Forget()
}

// drains is how long a node that was told to stop still takes connections.
const drains = 3 * time.Second

// unreadyAtOnce waits until /readyz fails, which must be before connections are refused.
func unreadyAtOnce(t *testing.T, n *fleet.Node) {
	t.Helper()
	eventually(t, drains-slack, "/readyz fails after SIGTERM", func() bool {
		answer, err := n.Ready(t.Context())
		return err != nil || answer.Status != http.StatusOK
	})
}

// G11: SIGTERM fails /readyz at once. Requests sent before the listener closed are answered and
// recorded, however slow the commits; then the node exits with 0, within 10 s.
func (s *suite) finishedAtTheEnd(t *testing.T) {
	_, key := s.newKey(t, plenty)
	n := s.Nodes[0]
	slow, stopSlowing := context.WithCancel(t.Context())
	var slowing, sending sync.WaitGroup
	slowing.Go(func() { s.slowCommits(slow, t) })

	var mu sync.Mutex
	answered := make(map[string]shot)
	signalled := make(chan struct{})
	var missed atomic.Int32
	for range 8 {
		sending.Go(func() {
			client := n.Client(key)
			client.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
			for {
				action := s.action("5")
				answer, err := client.Check(context.Background(), action)
				if closed(signalled) && refusedConnection(err) {
					return
				}
				x := shot{action: action, answer: answer, err: err}
				if x.failed() {
					if !s.neverTaken(t, x) || missed.Add(1) > 1 {
						t.Errorf("a request in flight: %s", x)
					}
					return
				}
				mu.Lock()
				answered[answer.Result().CheckID] = x
				mu.Unlock()
				time.Sleep(rand.N(50 * time.Millisecond)) // not all at once
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	at := time.Now()
	close(signalled)
	must.Do(t, n.Terminate())
	unreadyAtOnce(t, n)
	terminated(t, n, at)
	sending.Wait()
	stopSlowing()
	slowing.Wait()

	inFlight := 0
	for id, x := range answered {
		if rows := s.rows(t, "check_id = replace($1, 'chk_', '')::uuid", id); len(rows) != 1 {
			t.Errorf("answered and not recorded: %s", x)
		}
		if x.answer.Sent.After(at) {
			inFlight++
		}
	}
	if inFlight == 0 {
		t.Error("nothing was answered after SIGTERM")
	}
	t.Logf("%d checks, %d of them sent after SIGTERM", len(answered), inFlight)
	must.Do(t, n.Start(limited(t, patience)))
}

// G11: a node whose database hangs, with a check in doubt and an open connection
// for metrics, still stops in time and cleanly.
func (s *suite) stopsBesideAHungDatabase(t *testing.T) {
	n := s.Nodes[0]
	client := s.client(0)
	check(t, client, s.action("5"))
	metricsOf(t, n)
	must.Do(t, s.Postgres.Stop())
	refusedInOutage(t, must.Get(client.Check(t.Context(), s.action("5")))(t))
	signalled := time.Now()
	must.Do(t, n.Terminate())
	unreadyAtOnce(t, n)
	metricsOf(t, n) // it keeps the connection
	terminated(t, n, signalled)
	must.Do(t, s.Postgres.Continue())
	must.Do(t, n.Start(limited(t, patience)))
}

// slowCommits makes each commit take about 200 ms, by locking the trail most of
// the time.
func (s *suite) slowCommits(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		tx, err := s.Postgres.Pool.Begin(context.Background())
		if err == nil {
			_, err = tx.Exec(context.Background(), "LOCK TABLE checks IN EXCLUSIVE MODE; SELECT pg_sleep(0.2)")
			err = errors.Join(err, tx.Rollback(context.Background()))
		}
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// refusedConnection reports whether there was no listener, so nothing was sent.
func refusedConnection(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// neverTaken reports whether a request met a listener that was just closing:
// its connection was in the kernel's queue, which resets it, and no handler saw it.
func (s *suite) neverTaken(t *testing.T, x shot) bool {
	return (errors.Is(x.err, syscall.ECONNRESET) || errors.Is(x.err, syscall.EPIPE)) &&
		len(s.rows(t, "counterparty = $1", x.action.Counterparty)) == 0
}
