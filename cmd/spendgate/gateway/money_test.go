package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestExecutedOnce(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	s := agentOf(t, guarded(t, f, p, "", ""))
	wants(t, s, "ch_1", 500, stateExecuted, "paid")
	wants(t, s, "ch_1", 500, stateAlready, "Reference: re_1")
	wants(t, s, "ch_1", 501, stateExecuted, "paid")
	wants(t, s, " ", 501, stateError, "blank")
	wants(t, s, "ch_2", "500", stateError, "must be integer")
	nearly := &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_2", "amount": 1, "a_mount": 900}}
	if r, err := s.CallTool(t.Context(), nearly); err != nil || r.Meta[metaState] != stateError || !strings.Contains(textIn(r), "a_mount") {
		t.Error(r, err)
	}
	if got := p.paid(); len(got) != 2 || len(f.checks) != 2 || f.checks[0].outcome != "executed" || f.checks[0].action["amount"] != 5.0 {
		t.Error(got, f.checks)
	}
	// Another gateway, which has only the same file, knows the payment, too.
	wants(t, agentOf(t, guarded(t, f, p, "", "")), "ch_1", 500, stateAlready, "")
	// Tools that are not mapped: read only by the lock, or off.
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "look"}); err != nil {
		t.Error(err)
	}
	if r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "wipe"}); err != nil || !r.IsError || len(p.paid()) != 2 {
		t.Error(r, err)
	}
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil || tool.Name == "wipe" {
			t.Error(tool, err)
		}
	}
}

func TestBlockedAndEscalated(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	s := agentOf(t, guarded(t, f, p, "", ""))
	f.with(func() { f.decide = func(map[string]any) string { return "block" } })
	wants(t, s, "ch_1", 1, stateRefused, "Next step: stop")
	f.with(func() { f.decide = func(map[string]any) string { return "allow" } })
	wants(t, s, "ch_1", 1, stateRefused, "because")
	f.with(func() { f.after = "judge_again" })
	wants(t, s, "ch_1", 1, stateExecuted, "paid")

	// A call that was blocked because a budget had no room is judged again whatever the policy says.
	f.with(func() {
		f.after, f.reason = "", "count_limit_exceeded"
		f.decide = func(map[string]any) string { return "block" }
	})
	wants(t, s, "ch_0", 1, stateRefused, "Next step: stop")
	wants(t, s, "ch_0", 1, stateRefused, "Next step: stop")
	f.with(func() { f.reason, f.decide = "", func(map[string]any) string { return "allow" } })
	wants(t, s, "ch_0", 1, stateExecuted, "paid")
	wants(t, s, "ch_0", 1, stateAlready, "")

	f.with(func() { f.decide = func(map[string]any) string { return "escalate" } })
	approval := func(status string) {
		f.with(func() { f.approvals[f.checks[len(f.checks)-1].escalated] = status })
	}
	wants(t, s, "ch_2", 1, statePending, "Call this tool again with exactly the same arguments")
	approval("approved")
	wants(t, s, "ch_2", 1, stateExecuted, "paid")
	wants(t, s, "ch_2", 1, stateAlready, "")
	wants(t, s, "ch_3", 1, statePending, "")
	approval("denied")
	wants(t, s, "ch_3", 1, stateDenied, "")
	wants(t, s, "ch_3", 1, stateDenied, "")
	wants(t, s, "ch_4", 1, statePending, "")
	approval("expired")
	wants(t, s, "ch_4", 1, statePending, "") // asked again
	approval("approved")
	wants(t, s, "ch_4", 1, stateExecuted, "")
	if got := fmt.Sprint(p.paid()); got != "[ch_1 1 ch_0 1 ch_2 1 ch_4 1]" {
		t.Error(got)
	}
}

// on_error says what an upstream's error means. A call whose attempt was released may be made
// again.
func TestErrors(t *testing.T) {
	for _, test := range []struct{ onError, first, again string }{
		{"failed", stateError, stateExecuted},
		{"in_doubt", stateInDoubt, stateInDoubt},
	} {
		for name, declined := range map[string]error{"flagged": nil, "error": errors.New("broken")} {
			t.Run(test.onError+"/"+name, func(t *testing.T) {
				f, p := newFakeService(t), newProvider(t)
				p.behave = func(n int) (bool, error) {
					if n > 1 {
						return true, nil
					}
					return false, declined
				}
				s := agentOf(t, guarded(t, f, p, "", "        on_error: "+test.onError+"\n"))
				wants(t, s, "ch_1", 1, test.first, "")
				wants(t, s, "ch_1", 1, test.again, "")
				if test.onError == "in_doubt" {
					if len(p.paid()) != 0 || !f.checks[0].doubt {
						t.Error("what is in doubt was repeated, or is not recorded")
					}
					// People find out that it failed.
					f.with(func() { f.checks[0].outcome, f.checks[0].release = "failed", "done" })
					wants(t, s, "ch_1", 1, stateExecuted, "")
				}
				if len(p.paid()) != 1 {
					t.Error(p.paid())
				}
			})
		}
	}
}

// A gateway that dies between redeeming and reporting leaves a call in doubt: it is
// repeated only where the server takes an idempotency key.
func TestKilledBetween(t *testing.T) {
	for name, more := range map[string]string{"without": "", "with": keyMore, "once": keyMore + onceMore} {
		t.Run(name, func(t *testing.T) {
			f, p := newFakeService(t), newProvider(t)
			first := agentOf(t, guarded(t, f, p, "", more))
			// The report never arrives: the same as a gateway killed before it.
			f.with(func() {
				f.broken = func(path string) (bool, bool) { return strings.HasSuffix(path, "/outcome"), false }
			})
			go refund(t, first, "ch_1", 1)
			within(t, "paid", func() bool { return len(p.paid()) == 1 })
			second := agentOf(t, guarded(t, f, p, "", more))
			f.with(func() { f.broken = nil })
			state, _ := refund(t, second, "ch_1", 1)
			// The first gateway lives here, and its report may come after all.
			if state != stateInDoubt && state != stateAlready && (more == "" || state != stateExecuted) {
				t.Error(state)
			}
			if got := p.paid(); len(got) != 1 {
				t.Error("paid twice", got)
			}
		})
	}
}

// Of equal calls at once, through two gateways, one is executed.
func TestAtOnce(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	a, b := agentOf(t, guarded(t, f, p, "", "")), agentOf(t, guarded(t, f, p, "", ""))
	var all sync.WaitGroup
	var mu sync.Mutex
	states := make(map[string]int)
	for i := range 10 {
		s := a
		if i%2 == 0 {
			s = b
		}
		all.Go(func() {
			state, _ := refund(t, s, "ch_1", 1)
			mu.Lock()
			defer mu.Unlock()
			states[state]++
		})
	}
	all.Wait()
	if len(p.paid()) != 1 || states[stateExecuted] != 1 || states[stateAlready] != 9 {
		t.Error(p.paid(), states)
	}
}

// A redemption whose answer is lost is asked for again, as the same one. Until then the call is in
// doubt: if the server takes a key, another gateway may repeat the call.
func TestLostRedemption(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	lost := 0
	f.broken = func(path string) (bool, bool) {
		if strings.HasSuffix(path, "/redeem") && lost < 5 {
			lost++
			return false, true
		}
		return false, false
	}
	s := agentOf(t, guarded(t, f, p, "", ""))
	wantsMeta(t, s, stateInDoubt, "chk_1", "did not say whether check chk_1 was redeemed, and nothing was sent")
	wants(t, s, "ch_1", 1, stateExecuted, "paid")
	if len(p.paid()) != 1 || lost != 5 {
		t.Error(p.paid(), lost)
	}
}

// Of equal calls at once behind a redemption without an answer, one uses it.
func TestOpenRedemption(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	f.broken = func(path string) (bool, bool) { return false, strings.HasSuffix(path, "/redeem") }
	s := agentOf(t, guarded(t, f, p, "", ""))
	wants(t, s, "ch_1", 1, stateInDoubt, "nothing was sent")
	f.with(func() { f.broken = nil })
	p.slow = 300 * time.Millisecond
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() { refund(t, s, "ch_1", 1) })
	}
	calls.Wait()
	if got := p.paid(); len(got) != 1 {
		t.Error(got)
	}
}

// A server that cannot be reached got nothing: the attempt is given back.
func TestNotSent(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	target, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	front.Start()
	t.Cleanup(front.Close)
	p.url = front.URL
	f.broken = func(path string) (bool, bool) {
		if strings.HasSuffix(path, "/redeem") {
			_ = front.Listener.Close()
			front.CloseClientConnections()
			time.Sleep(200 * time.Millisecond) // the client's side notices
		}
		return false, false
	}
	wants(t, agentOf(t, guarded(t, f, p, "", "")), "ch_1", 1, stateError, "could not be reached")
	if c := f.checks[0]; c.outcome != "failed" || c.redeemed == "" || len(p.paid()) != 0 {
		t.Errorf("%+v", c)
	}
}

// If a server executes and dies, the call is in doubt, or is repeated under the same key.
func TestDiesAfterPaying(t *testing.T) {
	for name, test := range map[string]struct{ more, state string }{
		"without": {"", stateInDoubt}, "with": {"        idempotency_argument: idempotency_key\n", stateExecuted},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFakeService(t), newProvider(t)
			g := guarded(t, f, p, "", test.more)
			g.dial = func(u *upstream) (conn, error) { return &dying{conn: newRemote(u), p: p}, nil }
			wants(t, agentOf(t, g), "ch_1", 1, test.state, "")
			if len(p.paid()) != 1 || f.checks[0].doubt != (test.state == stateInDoubt) {
				t.Error(p.paid(), f.checks[0])
			}
		})
	}
}

// dying loses its connection when the first payment was made.
type dying struct {
	conn
	p *provider
}

func (d *dying) read() (message, error) {
	m, err := d.conn.read()
	d.p.mu.Lock()
	dies := d.p.calls == 1
	if dies {
		d.p.calls++
	}
	d.p.mu.Unlock()
	if dies {
		d.conn.close()
		return message{}, errLost
	}
	return m, err
}

// An error of a repeated call says nothing about the first call.
func TestRepeatedError(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(n int) (bool, error) {
		if n == 1 {
			return true, nil
		}
		return false, nil
	}
	g := guarded(t, f, p, "", "        idempotency_argument: idempotency_key\n        on_error: failed\n")
	g.dial = func(u *upstream) (conn, error) { return &dying{conn: newRemote(u), p: p}, nil }
	wants(t, agentOf(t, g), "ch_1", 1, stateInDoubt, "")
	if len(p.paid()) != 1 || f.checks[0].outcome != "" {
		t.Error(p.paid(), f.checks[0])
	}
}

// The server is told when the agent cancels a call, which then ends as on_error says, whether the
// server answers with an error, as some do then, or not at all.
func TestCancelled(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		pays  bool
		err   error
	}{
		"no answer": {cancelGrace + 2*time.Second, true, nil},
		"error":     {time.Second, true, errors.New("cancelled")},
		"flagged":   {time.Second, false, nil},
	} {
		for _, onError := range []string{onErrorInDoubt, onErrorFailed} {
			t.Run(name+"/"+onError, func(t *testing.T) {
				t.Parallel()
				f, p := newFakeService(t), newProvider(t)
				asked := make(chan struct{}, 9)
				p.behave = func(int) (bool, error) {
					asked <- struct{}{}
					time.Sleep(test.takes)
					return test.pays, test.err
				}
				s := agentOf(t, guarded(t, f, p, "", "        on_error: "+onError+"\n"))
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-asked; cancel() }()
				call := &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_1", "amount": 1}}
				if _, err := s.CallTool(ctx, call); err == nil {
					t.Error("was not cancelled")
				}
				within(t, onError, func() (so bool) {
					f.with(func() {
						if so = len(f.checks) == 1 && f.checks[0].doubt; onError == onErrorFailed {
							so = len(f.checks) == 1 && f.checks[0].outcome == outcomeFailed
						}
					})
					return so
				})
				if onError == onErrorInDoubt {
					wants(t, s, "ch_1", 1, stateInDoubt, "")
				}
				if got := p.paid(); len(got) > 1 || (got != nil) != test.pays {
					t.Error(got)
				}
			})
		}
	}
}

// A call that is cancelled while its check is redeemed is not sent, and gives the check back.
func TestCancelledRedeeming(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.broken = func(path string) (bool, bool) {
		if strings.HasSuffix(path, "/redeem") {
			cancel()
			time.Sleep(300 * time.Millisecond) // the gateway hears of it
		}
		return false, false
	}
	s := agentOf(t, guarded(t, f, p, "", ""))
	_, _ = s.CallTool(ctx, &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_1", "amount": 1}})
	within(t, "given back", func() (so bool) { f.with(func() { so = f.checks[0].outcome != "" }); return so })
	if c := f.checks[0]; c.outcome != outcomeVoided || c.note != "cancelled before the call was made" || p.paid() != nil {
		t.Errorf("%+v %v", c, p.paid())
	}
}
