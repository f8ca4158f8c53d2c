package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// People find out that a failed attempt was carried out. Then a later attempt is not carried out,
// even through a gateway that has already gone on to the later one.
func TestCorrectedFailure(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(int) (bool, error) { return true, errors.New("broken") }
	s := agentOf(t, guarded(t, f, p, "", "        on_error: failed\n"))
	wants(t, s, "ch_1", 1, stateError, "counts as not carried out")
	f.with(func() {
		f.reason, f.decide = "budget_exceeded", func(map[string]any) string { return "block" }
	})
	wants(t, s, "ch_1", 1, stateRefused, "")
	f.with(func() {
		f.checks[0].outcome = outcomeExecuted
		f.reason, f.decide = "", func(map[string]any) string { return "allow" }
	})
	wants(t, s, "ch_1", 1, stateAlready, "chk_1")
	if got := p.paid(); len(got) != 1 {
		t.Error("paid twice", got)
	}
}

// afterFailure makes a gateway whose call for ch_1 was paid but counts as failed.
func afterFailure(t *testing.T, more string) (*fakeService, *provider, *Gateway, *sdk.ClientSession) {
	t.Helper()
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(n int) (bool, error) {
		if n == 1 {
			return true, errors.New("broken")
		}
		return true, nil
	}
	g := guarded(t, f, p, "", "        on_error: failed\n"+more)
	s := agentOf(t, g)
	wants(t, s, "ch_1", 1, stateError, "counts as not carried out")
	return f, p, g, s
}

// The correction comes while the next attempt waits for people: its allow is given back.
func TestCorrectedWhileWaiting(t *testing.T) {
	f, p, _, s := afterFailure(t, "")
	f.with(func() {
		f.decide = func(map[string]any) string { return "escalate" }
		asked := 0
		f.broken = func(path string) (bool, bool) {
			if strings.Contains(path, "/approvals/") {
				if asked++; asked == 2 {
					f.checks[0].outcome, f.checks[0].release = outcomeExecuted, "none"
					f.approvals[f.checks[1].escalated] = "approved"
				}
			}
			return false, false
		}
	})
	wantsMeta(t, s, stateAlready, "chk_1", "")
	wantsVoided(t, f, 2)
	if got := p.paid(); len(got) != 1 || f.checks[2].redeemed != "gw-return-chk_3" {
		t.Error("paid twice, or redeemed to pay", got, f.checks[2].redeemed)
	}
}

// The correction comes after the earlier attempt was read, just before the redemption of the next
// one, which is given back. For a payment that is made only once, any agent may have paid it.
func TestCorrectedAtRedemption(t *testing.T) {
	for name, more := range map[string]string{"own": "", "once": onceMore} {
		t.Run(name, func(t *testing.T) {
			f, p, _, s := afterFailure(t, more)
			last := 1
			if more != "" {
				s, last = as(t, f, p, "other", "k", "        on_error: failed\n"+more), 2 // the first lasting key is used
			}
			redemptions := 0
			f.with(func() {
				f.broken = func(path string) (bool, bool) {
					if path == "POST /v1/checks/chk_2/redeem" {
						if redemptions++; redemptions == last {
							f.checks[0].outcome, f.checks[0].release = outcomeExecuted, "none"
						}
					}
					return false, false
				}
			})
			wantsMeta(t, s, stateAlready, "chk_1", "")
			wantsVoided(t, f, 1)
			if got := p.paid(); len(got) != 1 {
				t.Error("paid twice", got)
			}
		})
	}
}

// The same when the redemption under the second lasting key did not arrive at first and the call is
// repeated: the check under the first lasting key is not forgotten.
func TestCorrectedBeforeRedemptionAgain(t *testing.T) {
	f, p, _, _ := afterFailure(t, onceMore)
	s := as(t, f, p, "other", "k", "        on_error: failed\n"+onceMore)
	redemptions := 0
	f.with(func() {
		f.broken = func(path string) (bool, bool) {
			if path == "POST /v1/checks/chk_2/redeem" {
				redemptions++
			}
			return redemptions > 1, false
		}
	})
	wantsMeta(t, s, stateInDoubt, "chk_2", "Call again")
	f.with(func() { f.broken, f.checks[0].outcome, f.checks[0].release = nil, outcomeExecuted, "none" })
	wantsMeta(t, s, stateAlready, "chk_1", "")
	wantsVoided(t, f, 1)
	if got := p.paid(); len(got) != 1 {
		t.Error("paid twice", got)
	}
}

// After the redemption an earlier attempt cannot be read. Nothing is given back, since another
// gateway may repeat the call by then. The next call uses the redemption.
func TestUnreadBehindRedemption(t *testing.T) {
	for name, more := range map[string]string{"without": "", "with": keyMore} {
		t.Run(name, func(t *testing.T) {
			f, p, _, s := afterFailure(t, more)
			f.with(func() {
				f.broken = func(path string) (bool, bool) { return len(f.checks) == 2 && f.checks[1].redeemed != "", false }
			})
			wantsMeta(t, s, stateInDoubt, "chk_2", "chk_1 of an earlier attempt cannot be read")
			f.with(func() { f.broken = nil })
			time.Sleep(1500 * time.Millisecond) // reports are sent again after a second
			f.with(func() {
				if f.checks[1].outcome != "" {
					t.Error("it was given back as", f.checks[1].outcome)
				}
			})
			wantsMeta(t, s, stateExecuted, "chk_2", "paid")
			if got := p.paid(); len(got) != 2 { // the first was called failed
				t.Error(got)
			}
		})
	}
}

// A failure that is not recorded at once gives nothing back later, since another gateway may have
// repeated the call by then.
func TestFailureRecordedTooLate(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(n int) (bool, error) {
		if n == 1 {
			return false, errors.New("broken")
		}
		return true, nil
	}
	s := agentOf(t, guarded(t, f, p, "", "        on_error: failed\n"+keyMore))
	f.with(func() {
		f.broken = func(path string) (bool, bool) { return strings.HasSuffix(path, "/outcome"), false }
	})
	wants(t, s, "ch_1", 1, stateInDoubt, "chk_1")
	f.with(func() { f.broken = nil })
	time.Sleep(1500 * time.Millisecond)
	f.with(func() {
		if f.checks[0].outcome != "" {
			t.Error("it was given back as", f.checks[0].outcome)
		}
	})
	wantsMeta(t, s, stateExecuted, "chk_1", "paid")
}

// The correction comes while the gateway waits for another gateway's redemption of the next attempt,
// which is not repeated then.
func TestCorrectedBeforeRepeating(t *testing.T) {
	f, p, _, s := afterFailure(t, keyMore)
	f.with(func() {
		f.broken = func(path string) (bool, bool) {
			if path == "POST /v1/checks/chk_2/redeem" && f.checks[1].redeemed == "" {
				f.checks[1].redeemed, f.checks[1].redeemer = "of another process", "k"
			}
			if path == "GET /v1/checks/chk_2" {
				f.checks[0].outcome, f.checks[0].release = outcomeExecuted, "none"
			}
			return false, false
		}
	})
	wants(t, s, "ch_1", 1, stateInDoubt, "chk_2")
	if got := p.paid(); len(got) != 1 {
		t.Error("paid twice", got)
	}
}

// The same for a payment that is made only once. A gateway passed over another agent's attempt and was
// killed after its redemption: the gateway that repeats the call asks the service for that attempt.
func TestCorrectedBeforeRepeatingOnce(t *testing.T) {
	for name, state := range map[string]string{"corrected": stateInDoubt, "failed": stateExecuted, "not told": stateInDoubt} {
		t.Run(name, func(t *testing.T) {
			more := onceMore + keyMore
			f, p, _, _ := afterFailure(t, more)
			redemptions := 0
			f.with(func() {
				f.broken = func(path string) (before, after bool) {
					if strings.HasSuffix(path, "chk_2/redeem") {
						redemptions++
					}
					return redemptions > 2, redemptions == 2 // the second lasting key's is recorded, and nothing else
				}
			})
			wants(t, as(t, f, p, "other", "k", more), "ch_1", 1, stateInDoubt, "") // and is killed
			f.with(func() {
				f.broken = nil
				if f.checks[1].redeemed == "" {
					t.Fatal("it is not redeemed")
				}
				switch name {
				case "corrected":
					f.checks[0].outcome, f.checks[0].release = outcomeExecuted, "none"
				case "not told":
					clear(f.once)
				}
			})
			wants(t, as(t, f, p, "other", "k", more), "ch_1", 1, state, "")
			want := 1
			if state == stateExecuted {
				want = 2 // the first was called failed
			}
			if got := p.paid(); len(got) != want {
				t.Error(got)
			}
		})
	}
}

// A gateway that forgets begins with the first attempt.
func TestCorrectedForgotten(t *testing.T) {
	f, p, g, s := afterFailure(t, "")
	f.with(func() { f.reason, f.decide = "budget_exceeded", func(map[string]any) string { return "block" } })
	wants(t, s, "ch_1", 1, stateRefused, "")
	for i := range maxRemembered {
		g.attempts.keep(fmt.Sprint(i), gone{at: 1})
	}
	f.with(func() {
		f.checks[0].outcome = outcomeExecuted
		f.reason, f.decide = "", func(map[string]any) string { return "allow" }
	})
	wants(t, s, "ch_1", 1, stateAlready, "chk_1")
	if got := p.paid(); len(got) != 1 {
		t.Error("paid twice", got)
	}
}

// No failed attempt is forgotten because there are many: people have to look.
func TestCorrectedOfMany(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	p.behave = func(n int) (bool, error) { return n == 1, errors.New("broken") }
	s := agentOf(t, guarded(t, f, p, "", "        on_error: failed\n"))
	for range maxLeft + 1 {
		wants(t, s, "ch_1", 1, stateError, "counts as not carried out")
	}
	for range 2 {
		wants(t, s, "ch_1", 1, stateError, "too many to go on")
	}
	f.with(func() { f.checks[0].outcome = outcomeExecuted })
	wants(t, s, "ch_1", 1, stateAlready, "chk_1")
	if got := p.paid(); len(got) != 1 || len(f.checks) != maxLeft+1 {
		t.Error(got, len(f.checks))
	}
}

// An archived earlier attempt can no longer be corrected; one that cannot be read may have been.
func TestCorrectedArchived(t *testing.T) {
	f, _, g, s := afterFailure(t, "")
	f.with(func() { f.reason, f.decide = "budget_exceeded", func(map[string]any) string { return "block" } })
	wants(t, s, "ch_1", 1, stateRefused, "")
	f.with(func() {
		f.reason, f.decide = "", func(map[string]any) string { return "allow" }
		f.broken = func(path string) (bool, bool) { return path == "GET /v1/checks/chk_1", false }
	})
	wants(t, s, "ch_1", 1, stateError, "chk_1 of an earlier attempt cannot be read")
	f.with(func() { f.broken, f.checks[0].id = nil, "archived" })
	wants(t, s, "ch_1", 1, stateExecuted, "paid")
	for identity := range g.attempts.of {
		if left := g.attempts.begin(identity).left; len(left) != 0 {
			t.Error(left)
		}
	}
}
