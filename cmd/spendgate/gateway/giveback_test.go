package gateway

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	onceMore = "        once: true\n"
	keyMore  = "        idempotency_argument: idempotency_key\n"
)

// as makes a gateway of another agent or API key, and a session with it.
func as(t *testing.T, f *fakeService, p *provider, agent, apiKey, more string) *sdk.ClientSession {
	t.Helper()
	g := guardedAs(t, f, p, apiKey, "", more)
	g.file.AgentID.fixed = agent
	return agentOf(t, g)
}

// wantsMeta calls the tool and wants the state, the check and the decision in _meta.
func wantsMeta(t *testing.T, s *sdk.ClientSession, state, checkID, text string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_1", "amount": 1}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Meta[metaState] != state || r.Meta[metaCheckID] != checkID || r.Meta[metaDecision] != "allow" || !strings.Contains(textIn(r), text) {
		t.Errorf("%v %s, want %s of %s, %q", r.Meta, textIn(r), state, checkID, text)
	}
}

// wantsVoided wants a check to be given back.
func wantsVoided(t *testing.T, f *fakeService, i int) {
	t.Helper()
	f.with(func() {
		if len(f.checks) <= i || f.checks[i].outcome != "voided" || f.checks[i].release != "done" {
			t.Errorf("check %d is not voided and given back: %+v", i, f.checks[min(i, len(f.checks)-1)])
		}
	})
}

// once lasts: no later call executes, also when idempotency keys are forgotten.
func TestOnce(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	s := agentOf(t, guarded(t, f, p, "", onceMore))
	wants(t, s, "ch_1", 1, stateExecuted, "")
	f.with(func() { f.checks[0].forgotten = true }) // a day later
	for range 3 {
		wants(t, s, "ch_1", 1, stateAlready, "re_1")
	}
	wants(t, agentOf(t, guarded(t, f, p, "", onceMore)), "ch_1", 1, stateAlready, "re_1")
	wantsVoided(t, f, 1)
	if len(p.paid()) != 1 || len(f.checks) != 2 {
		t.Error(p.paid(), len(f.checks))
	}
}

// The outcome of the first payment decides about the other agent's call each time.
func TestOnceInDoubt(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(n int) (bool, error) { return n > 1, nil }
	wants(t, as(t, f, p, "a", "k", onceMore), "ch_1", 1, stateInDoubt, "people are told")
	other := as(t, f, p, "b", "k", onceMore)
	for range 2 {
		wantsMeta(t, other, stateInDoubt, "chk_1", "people are told")
	}
	wantsVoided(t, f, 1)
	f.with(func() { f.checks[0].outcome, f.checks[0].release, f.checks[0].doubt = "failed", "done", false })
	wants(t, other, "ch_1", 1, stateExecuted, "paid")
	if len(p.paid()) != 1 || len(f.checks) != 3 {
		t.Error(p.paid(), len(f.checks))
	}
}

// The gateway waits for a payment that another agent's call is carrying out. If its end stays
// unknown, the agent is told so, but people are not: the service does not know of a doubt.
func TestOnceAtOnce(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.slow = 300 * time.Millisecond
	a, b := as(t, f, p, "a", "k", onceMore), as(t, f, p, "b", "k", onceMore)
	var calls sync.WaitGroup
	calls.Go(func() { wants(t, a, "ch_1", 1, stateExecuted, "paid") })
	within(t, "redeemed", func() (so bool) {
		f.with(func() { so = len(f.checks) == 1 && f.checks[0].redeemed != "" })
		return so
	})
	wants(t, b, "ch_1", 1, stateAlready, "re_1")
	calls.Wait()

	p.slow = 2 * time.Second
	calls.Go(func() { refund(t, a, "ch_2", 1) })
	within(t, "redeemed", func() (so bool) {
		f.with(func() { so = len(f.checks) == 3 && f.checks[2].redeemed != "" })
		return so
	})
	wants(t, b, "ch_2", 1, stateInDoubt, "may be carrying the action out now")
	f.with(func() {
		if f.checks[2].doubt {
			t.Error("in doubt while it is carried out")
		}
	})
	calls.Wait()
	wants(t, b, "ch_2", 1, stateAlready, "")
	if len(p.paid()) != 2 {
		t.Error(p.paid())
	}
}

// Later attempts are found even when idempotency keys are older than a day, whatever fails in between.
func TestOldAttempts(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(n int) (bool, error) { return n > 1, nil }
	more := "        on_error: failed\n"
	s := agentOf(t, guarded(t, f, p, "", more))
	wants(t, s, "ch_1", 1, stateError, "")
	wants(t, s, "ch_1", 1, stateExecuted, "")
	f.with(func() {
		f.checks[0].forgotten = true
		f.broken = func(path string) (bool, bool) { return path == "GET /v1/checks", false }
	})
	s = agentOf(t, guarded(t, f, p, "", more))
	wantsMeta(t, s, stateError, "chk_3", "earlier attempts cannot be looked for")
	f.with(func() { f.broken = func(path string) (bool, bool) { return false, strings.HasSuffix(path, "/redeem") } })
	wantsMeta(t, s, stateError, "chk_3", "was not given back")
	f.with(func() {
		f.broken = func(path string) (bool, bool) { return strings.HasSuffix(path, "/outcome"), false }
	})
	wantsMeta(t, s, stateError, "chk_3", "did not record yet")
	f.with(func() { f.broken = nil })
	for range 2 {
		wants(t, s, "ch_1", 1, stateAlready, "re_1")
	}
	wantsVoided(t, f, 2)
	if len(p.paid()) != 1 || len(f.checks) != 3 {
		t.Error(p.paid(), len(f.checks))
	}
}

// Attempts of another principal do not count as this gateway's.
func TestAttemptsOfOthers(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	more := "        on_error: failed\n"
	p.behave = func(n int) (bool, error) { return n > 1, nil }
	team := as(t, f, p, "bot", "team", more)
	wants(t, team, "ch_1", 1, stateError, "")
	wants(t, team, "ch_1", 1, stateExecuted, "")
	wants(t, as(t, f, p, "bot", "others", more), "ch_1", 1, stateExecuted, "")
	f.with(func() {
		if len(f.checks) != 3 || f.checks[2].outcome != "executed" {
			t.Error("the others' first attempt is not what was executed")
		}
		f.checks[0].forgotten = true
	})
	// Another key, and another spelling, are the same principal.
	wants(t, as(t, f, p, "bot", "Team#2", more), "ch_1", 1, stateAlready, "")
	if len(p.paid()) != 2 {
		t.Error(p.paid())
	}
}

// People must release an allow that was not redeemed in time: then the call goes on.
func TestTooLate(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	f.broken = func(path string) (bool, bool) { return strings.HasSuffix(path, "/redeem"), false }
	wantsMeta(t, agentOf(t, guarded(t, f, p, "", "")), stateInDoubt, "chk_1", "whether check chk_1 was redeemed")
	f.with(func() { f.broken, f.checks[0].late = nil, true })
	s := agentOf(t, guarded(t, f, p, "", "")) // the first one was killed
	for range 2 {
		wantsMeta(t, s, stateError, "chk_1", "outcomes:release")
	}
	f.with(func() {
		if f.checks[0].outcome != "" || len(p.paid()) != 0 { // a redemption may be on its way
			t.Error(f.checks[0], p.paid())
		}
		f.checks[0].outcome, f.checks[0].release = "voided", "done" // by people
	})
	wantsMeta(t, s, stateExecuted, "chk_2", "paid")
}

// A check that is refused as too old may have been redeemed in time and may be carried out now, so it
// is not voided. Nor is a check that cannot be read.
func TestTooLateRedeemed(t *testing.T) {
	for name, more := range map[string]string{"before": "", "meanwhile": "", "unreadable": "", "to be given back": onceMore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, p := newFakeService(t), newProvider(t)
			one, redemptions := 0, 0
			if more != "" { // the payment is another agent's
				wants(t, as(t, f, p, "other", "k", more), "ch_1", 1, stateExecuted, "")
				one, redemptions = 1, -1 // the lasting key is refused first
			}
			f.broken = func(path string) (bool, bool) {
				if strings.HasSuffix(path, "/redeem") {
					if redemptions++; redemptions == 1 {
						f.checks[one].expired = true
						if name != "unreadable" {
							f.checks[one].redeemed, f.checks[one].redeemer = "of another process", "k"
						}
					}
				}
				return name == "unreadable" && path == "GET /v1/checks/chk_1", false
			}
			s := as(t, f, p, "bot", "k", more)
			state := stateInDoubt
			if more != "" {
				state = stateAlready
			}
			wants(t, s, "ch_1", 1, state, "")
			if name == "before" {
				wants(t, s, "ch_1", 1, state, "")
			}
			f.with(func() {
				if f.checks[one].outcome != "" || len(f.checks) != one+1 {
					t.Errorf("voided: %+v", f.checks[one])
				}
			})
			if len(p.paid()) != one {
				t.Error(p.paid())
			}
		})
	}
}

// A gateway is killed after it redeemed a check to give it back, and before it gave it back.
func TestKilledGivingBack(t *testing.T) {
	for _, test := range []struct {
		name, apiKey, state string
		doubt               bool
	}{
		{"same key", "k", stateAlready, false},
		{"in doubt", "k", stateInDoubt, true},
		{"another key", "k#2", stateInDoubt, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, p := newFakeService(t), newProvider(t)
			more := onceMore + keyMore
			wants(t, as(t, f, p, "a", "k", more), "ch_1", 1, stateExecuted, "")
			wants(t, as(t, f, p, "b", "k", more), "ch_1", 1, stateAlready, "")
			wantsVoided(t, f, 1)
			f.with(func() {
				f.checks[1].outcome, f.checks[1].release, f.checks[1].note, f.checks[1].doubt = "", "", "", test.doubt
			})
			last := as(t, f, p, "b", test.apiKey, more)
			if test.state == stateAlready {
				f.with(func() {
					f.broken = func(path string) (bool, bool) { return strings.HasSuffix(path, "/outcome"), false }
				})
				wants(t, last, "ch_1", 1, stateError, "did not record yet")
				f.with(func() { f.broken = nil })
			}
			wants(t, last, "ch_1", 1, test.state, "")
			if test.state == stateAlready {
				wantsVoided(t, f, 1)
			}
			if len(p.paid()) != 1 {
				t.Error("paid again", p.paid())
			}
		})
	}
}

// A report counts even if it arrives when another gateway has waited long enough: a failed call is
// not carried out under the same check, whose charge is given back.
func TestReportedAfterWaiting(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(int) (bool, error) { return false, errors.New("broken") }
	f.with(func() {
		f.broken = func(path string) (bool, bool) { return strings.HasSuffix(path, "/outcome"), false }
	})
	failed := "        on_error: failed\n"
	wants(t, agentOf(t, guarded(t, f, p, "", keyMore+failed)), "ch_1", 1, stateInDoubt, "chk_1")
	p.behave = nil
	f.with(func() {
		redemptions := 0
		f.broken = func(path string) (bool, bool) {
			if strings.HasSuffix(path, "/redeem") {
				redemptions++
			}
			if redemptions == 2 && f.checks[0].outcome == "" { // to give it back
				f.checks[0].outcome, f.checks[0].release = outcomeFailed, "done"
			}
			return redemptions < 2 && strings.HasSuffix(path, "/outcome"), false
		}
	})
	wants(t, agentOf(t, guarded(t, f, p, "", keyMore+failed)), "ch_1", 1, stateExecuted, "")
	f.with(func() {
		if len(f.checks) != 2 || f.checks[0].outcome != outcomeFailed || f.checks[1].outcome != outcomeExecuted {
			t.Errorf("%+v", f.checks)
		}
	})
}

// A call ends with an error while another gateway still repeats it: the error gives nothing back,
// since the repetition pays.
func TestFailsWhileRepeated(t *testing.T) {
	for name, more := range map[string]string{"waits": "", "waits for nothing": "wait_seconds: 0"} {
		t.Run(name, func(t *testing.T) {
			f, p := newFakeService(t), newProvider(t)
			p.behave = func(n int) (bool, error) {
				p.mu.Unlock() // two calls at once
				defer p.mu.Lock()
				time.Sleep(2 * time.Second)
				if n == 1 {
					return false, errors.New("broken")
				}
				return true, nil
			}
			guard := func() *sdk.ClientSession {
				g := guarded(t, f, p, "", keyMore+"        on_error: failed\n")
				if more != "" {
					*g.file.Upstreams["psp"].Tools["refund"].WaitSeconds = 0
					f.with(func() { f.unfit = "the server" }) // a failure without a reason gives nothing back, either
				}
				return agentOf(t, g)
			}
			first, second := guard(), guard()
			var calls sync.WaitGroup
			calls.Go(func() { wants(t, first, "ch_1", 1, stateInDoubt, "chk_1") })
			within(t, "called", func() bool {
				redeemed := false
				f.with(func() { redeemed = len(f.checks) == 1 && f.checks[0].redeemed != "" })
				return redeemed
			})
			wants(t, second, "ch_1", 1, stateExecuted, "paid")
			calls.Wait()
			wants(t, first, "ch_1", 1, stateAlready, "chk_1")
			if got := p.paid(); len(got) != 1 || f.checks[0].outcome != outcomeExecuted {
				t.Error(got, f.checks[0])
			}
		})
	}
}

// A check that cannot be read, or that was reported meanwhile, is not repeated: another gateway
// may have reported it as failed, which gives its charge back.
func TestReportedWhileLooking(t *testing.T) {
	for name, request := range map[string]string{"unreadable": "GET /v1/checks/chk_1", "reported": "GET /v1/checks"} {
		t.Run(name, func(t *testing.T) {
			f, p := newFakeService(t), newProvider(t)
			f.with(func() {
				f.broken = func(path string) (bool, bool) { return strings.HasSuffix(path, "/redeem"), false }
			})
			more := keyMore + "        on_error: failed\n"
			wants(t, agentOf(t, guarded(t, f, p, "", more)), "ch_1", 1, stateInDoubt, "whether check chk_1 was redeemed")
			f.with(func() {
				f.checks[0].redeemed, f.checks[0].redeemer = "of another process", "k"
				redemptions := 0
				f.broken = func(path string) (bool, bool) {
					if strings.HasSuffix(path, "/redeem") {
						redemptions++
					}
					at := redemptions == 2 && path == request // the second was to give it back
					if at && name == "reported" {
						f.checks[0].outcome, f.checks[0].release = outcomeFailed, "done"
					}
					return at && name == "unreadable", false
				}
			})
			s := agentOf(t, guarded(t, f, p, "", more))
			wants(t, s, "ch_1", 1, stateInDoubt, "chk_1")
			if got := p.paid(); len(got) != 0 {
				t.Error("paid under a check that is given back", got)
			}
			f.with(func() { f.broken, f.checks[0].outcome, f.checks[0].release = nil, outcomeFailed, "done" })
			wantsMeta(t, s, stateExecuted, "chk_2", "paid")
		})
	}
}

// A call in doubt is repeated if the server takes a key, unless the payment is made only once: then
// the check may have been redeemed to be given back, also by another API key.
func TestRepeatedInDoubt(t *testing.T) {
	for _, test := range []struct {
		more, apiKey string
		doubt        bool
		state        string
	}{
		{keyMore, "k", true, stateExecuted},
		{keyMore + onceMore, "k", true, stateInDoubt},
		{keyMore + onceMore, "k", false, stateExecuted},
		{keyMore + onceMore, "k#2", false, stateInDoubt},
	} {
		f, p := newFakeService(t), newProvider(t)
		wants(t, agentOf(t, guarded(t, f, p, "", test.more)), "ch_1", 1, stateExecuted, "paid")
		f.with(func() { f.checks[0].outcome, f.checks[0].doubt = "", test.doubt }) // as of a gateway that was killed
		wants(t, agentOf(t, guardedAs(t, f, p, test.apiKey, "", test.more)), "ch_1", 1, test.state, "")
		if len(p.paid()) != 1 {
			t.Error(p.paid())
		}
	}
}
