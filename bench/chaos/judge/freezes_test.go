package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/bench/chaos/judge"
)

const ofAgent = `{"agent_id":"agent"}`

// freeze adds a freeze, as it is answered and recorded, which lasts for that long; 0 is until it is released.
func (s *builder) freeze(scope string, lasts time.Duration) *judge.Op {
	until, untilMS := "", int64(0)
	if lasts > 0 {
		at := s.Run.Began.Add(s.now + lasts)
		until, untilMS = fmt.Sprintf(`,"until":%q`, at.Format(time.RFC3339Nano)), at.UnixMilli()
	}
	s.Freezes = append(s.Freezes, judge.FreezeStep{
		ID: "frz_1", Kind: "freeze.created", Scope: []byte(scope), UntilMS: untilMS, CommittedUS: s.Run.Began.Add(s.now + 5*ms).UnixMicro(),
	})
	return s.op(judge.Op{
		Kind: judge.Freeze, Status: 201, Request: []byte(fmt.Sprintf(`{"scope":%s,"idempotency_key":"k"%s}`, scope, until)),
		Answer: `{"freeze_id":"frz_1","status":"active"}`,
	})
}

func (s *builder) thaw() *judge.Op {
	s.Freezes = append(s.Freezes, judge.FreezeStep{
		ID: "frz_1", Kind: "freeze.released", Scope: []byte(ofAgent), CommittedUS: s.Run.Began.Add(s.now + 5*ms).UnixMicro(),
	})
	return s.op(judge.Op{Kind: judge.Thaw, Subject: "frz_1", Status: 200, Answer: `{"freeze_id":"frz_1","status":"released"}`})
}

// committed sets when a row was committed.
func (s *builder) committed(r *judge.Row, at time.Duration) {
	r.CommittedUS = s.Run.Began.Add(at).UnixMicro()
}

// frozen adds a check that a freeze blocks.
func (s *builder) frozen(a action) *judge.Op {
	row := s.record(a, s.now+5*ms)
	row.ClaimedMS = nil
	s.decide(row, "block", "freeze", "frozen", "frozen")
	op := s.ask(a)
	s.answer(op, row, false)
	return op
}

func TestFreezes(t *testing.T) {
	ten := action{to: "a", amount: "10"}
	for name, c := range map[string]struct {
		change func(s *builder)
		says   string // empty when it is allowed
	}{
		"frozen, released and allowed": {func(s *builder) {
			o, row := s.decided(ten)
			s.committed(row, o.Done)
			s.freeze(ofAgent, 0)
			s.frozen(action{to: "b", amount: "10"})
			s.refusedRedeem(row, gatewayKey, "k", "frozen", "")
			refuse(s.ask(action{to: "a", amount: "10", approval: "apr_1"}), 409, "frozen")
			s.thaw()
			o, row = s.decided(action{to: "c", amount: "10"})
			s.committed(row, o.Done)
		}, ""},
		"allowed while it is recorded, and after its time": {func(s *builder) {
			o, _ := s.decided(ten)
			f := s.freeze(ofAgent, 50*ms)
			o.Done = f.Done + 100*ms
			s.now += 150 * ms
			s.decided(action{to: "b", amount: "10"})
		}, ""},
		"something else is frozen": {func(s *builder) {
			s.freeze(`{"policy_id":"other"}`, 0)
			o, row := s.decided(ten)
			s.committed(row, o.Done)
		}, ""},
		"a freeze without an answer": {func(s *builder) {
			s.fault(judge.Fault{})
			fail(s.freeze(ofAgent, 0))
			s.Freezes = nil
			s.decided(ten)
			s.frozen(action{to: "b", amount: "10"})
		}, ""},
		"allowed": {func(s *builder) {
			s.freeze(`{"all":true}`, 0)
			s.decided(ten)
		}, "was answered though"},
		"its key's redemption": {func(s *builder) {
			_, row := s.decided(ten)
			s.freeze(`{"principal":"`+gatewayKey+`"}`, 0)
			s.redeem(row, s.step(row, 1, false, gatewayKey), gatewayKey, "k", false)
		}, "was answered though"},
		"a payment": {func(s *builder) {
			s.freeze(`{"principal":"shop"}`, 0)
			s.Keys[0].Principal = "shop"
			s.op(judge.Op{
				Kind: judge.Pay, Key: theKey, Subject: "p", Status: 200, Request: []byte(`{"redeem":"n"}`),
				Answer: `{"check_id":"chk_1","payment":{"proceed":true,"nonce":"n","redemption_id":"rdm_1"}}`,
			})
			s.Payments = []judge.PaymentStep{
				{Payment: "p", Version: 1, CheckID: "chk_1"},
				{Payment: "p", Version: 2, CheckID: "chk_1", ID: "1", Status: "redeemed"},
			}
		}, "was answered though"},
		"in flight, and answered a long time after": {func(s *builder) {
			o, _ := s.decided(ten)
			f := s.freeze(ofAgent, 0)
			o.Done = f.Done + 1100*ms
		}, "was answered though"},
		"recorded behind it, and not answered": {func(s *builder) {
			row := s.record(ten, s.now)
			refuse(s.ask(ten), 409, "frozen")
			f := s.freeze(ofAgent, 0)
			f.Sent -= 30 * ms
			s.committed(row, f.Done)
		}, "recorded as allowed behind"},
		"redeemed behind it, and not answered": {func(s *builder) {
			_, row := s.decided(ten)
			s.freeze(ofAgent, 0)
			s.step(row, 1, false, gatewayKey).CommittedUS = s.Run.Began.Add(s.now).UnixMicro()
		}, "recorded as redeemed behind"},
		"paid behind it, and not answered": {func(s *builder) {
			s.op(judge.Op{Kind: judge.Pay, Key: theKey, Subject: "p", Status: 409, Request: []byte(`{"agent_id":"agent","redeem":"n"}`)})
			s.freeze(ofAgent, 0)
			s.Payments = []judge.PaymentStep{{
				Payment: "p", Version: 1, CheckID: "chk_1", Permits: true, CommittedUS: s.Run.Began.Add(s.now).UnixMicro(),
			}}
		}, "is recorded as"},
		"blocked, and nothing is frozen": {func(s *builder) { s.frozen(ten) }, "nothing froze it"},
		"blocked after the release": {func(s *builder) {
			s.freeze(ofAgent, 0)
			s.thaw()
			s.frozen(ten)
		}, "nothing froze it"},
		"refused, and another is frozen": {func(s *builder) {
			s.freeze(`{"counterparty":"b"}`, 0)
			refuse(s.ask(ten), 409, "frozen")
		}, "nothing froze what is refused"},
		"refused after its time": {func(s *builder) {
			s.freeze(ofAgent, 50*ms)
			s.now += 150 * ms
			refuse(s.ask(ten), 409, "frozen")
		}, "nothing froze what is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			c.change(s)
			found := s.judged(t)
			switch {
			case c.says == "" && len(found) > 0:
				t.Errorf("got %v", found)
			case c.says != "" && (len(found) != 1 || found[0].Rule != "G17" || !strings.Contains(found[0].Text, c.says)):
				t.Errorf("got %v, want G17: %s", found, c.says)
			}
		})
	}
}
