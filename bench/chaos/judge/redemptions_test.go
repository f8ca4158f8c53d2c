package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/must"
)

const (
	gatewayKey = "key_gateway"
	otherKey   = "key_other"
)

// steps adds a redemption, or that it is in doubt, as it is recorded.
func (s *builder) step(r *judge.Row, n int, doubt bool, key string) *judge.Redemption {
	s.Redemptions = append(s.Redemptions, judge.Redemption{
		ID: fmt.Sprint("step", len(s.Redemptions)), CheckID: r.CheckID, AtMS: s.Run.Began.Add(s.now).UnixMilli(), Step: n, InDoubt: doubt,
		KeyID: key,
	})
	s.now += 20 * ms
	return &s.Redemptions[len(s.Redemptions)-1]
}

// redeem adds the request of a redemption that is answered with a recorded one.
func (s *builder) redeem(r *judge.Row, of *judge.Redemption, key, idempotencyKey string, replayed bool) *judge.Op {
	return s.op(judge.Op{
		Kind: judge.Redeem, Key: key, Subject: r.CheckID, Request: []byte(fmt.Sprintf(`{"idempotency_key":%q}`, idempotencyKey)),
		Status: 200, Answer: fmt.Sprintf(`{"redemption_id":"rdm_%s"}`, of.ID), Replayed: replayed,
	})
}

// refused adds the request of one that is refused.
func (s *builder) refusedRedeem(r *judge.Row, key, idempotencyKey, code, says string) {
	o := s.redeem(r, &judge.Redemption{}, key, idempotencyKey, false)
	refuse(o, 409, code)
	o.Answer = strings.Replace(o.Answer, `"code":`, fmt.Sprintf(`"about":%q,"code":`, says), 1)
}

func TestRedemptions(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(s *builder, row *judge.Row)
		rule, says string // empty when it is allowed
	}{
		"redeemed, replayed, refused to another and reported": {func(s *builder, row *judge.Row) {
			of := s.step(row, 1, false, gatewayKey)
			s.redeem(row, of, gatewayKey, "k", false)
			s.redeem(row, of, gatewayKey, "k", true)
			s.refusedRedeem(row, otherKey, "k", "check_already_redeemed", "")
			s.refusedRedeem(row, gatewayKey, "other", "check_already_redeemed", "")
			s.report(row, gatewayKey, "executed", "10")
			s.refusedRedeem(row, gatewayKey, "k", "check_already_redeemed", "")
		}, "", ""},
		"in doubt, and reported by another": {func(s *builder, row *judge.Row) {
			of := s.step(row, 1, false, gatewayKey)
			s.redeem(row, of, gatewayKey, "k", false)
			s.step(row, 2, true, gatewayKey)
			s.refusedRedeem(row, gatewayKey, "k", "check_already_redeemed", "")
			s.report(row, executorKey, "executed", "10")
		}, "", ""},
		"voided, and not redeemed": {func(s *builder, row *judge.Row) {
			s.report(row, executorKey, "executed", "10")
			s.refusedRedeem(row, gatewayKey, "k", "check_released", "")
		}, "", ""},
		"redeemed twice": {func(s *builder, row *judge.Row) {
			s.step(row, 1, false, gatewayKey)
			s.step(row, 2, false, gatewayKey)
		}, "G14", "behind another step"},
		"redeemed behind a report": {func(s *builder, row *judge.Row) {
			s.report(row, executorKey, "executed", "10")
			s.step(row, 2, false, executorKey)
		}, "G14", "behind another step"},
		"redeemed too late": {func(s *builder, row *judge.Row) {
			s.now += 16 * 60 * second
			s.step(row, 1, false, gatewayKey)
		}, "G14", "too old"},
		"redeemed though it was blocked": {func(s *builder, _ *judge.Row) {
			_, blocked := s.decided(action{to: "b", amount: tooMuch})
			s.step(blocked, 1, false, gatewayKey)
		}, "G14", "no allowed check"},
		"in doubt by another": {func(s *builder, row *judge.Row) {
			s.step(row, 1, false, gatewayKey)
			s.step(row, 2, true, otherKey)
		}, "G14", "not redeemed by it"},
		"in doubt and never redeemed": {func(s *builder, row *judge.Row) { s.step(row, 1, true, gatewayKey) }, "G14", "not redeemed by it"},
		"reported by another": {func(s *builder, row *judge.Row) {
			s.step(row, 1, false, gatewayKey)
			s.report(row, executorKey, "executed", "10")
		}, "G14", "reported by " + executorKey},
		"in doubt, and reported by an agent": {func(s *builder, row *judge.Row) {
			s.step(row, 1, false, gatewayKey)
			s.step(row, 2, true, gatewayKey)
			s.report(row, agentKey, "executed", "10")
		}, "G14", "reported by " + agentKey},
		"answered and not recorded": {func(s *builder, row *judge.Row) {
			s.redeem(row, &judge.Redemption{}, gatewayKey, "k", false)
		}, "G14", "not recorded"},
		"answered to another": {func(s *builder, row *judge.Row) {
			s.redeem(row, s.step(row, 1, false, gatewayKey), otherKey, "k", true)
		}, "G14", "not recorded"},
		"told twice": {func(s *builder, row *judge.Row) {
			of := s.step(row, 1, false, gatewayKey)
			s.redeem(row, of, gatewayKey, "k", false)
			s.redeem(row, of, gatewayKey, "k", false)
		}, "G14", "two were told"},
		"replayed without a key": {func(s *builder, row *judge.Row) {
			of := s.step(row, 1, false, gatewayKey)
			s.redeem(row, of, gatewayKey, "", false)
			s.redeem(row, of, gatewayKey, "", true)
		}, "G14", "two were told"},
		"refused its own": {func(s *builder, row *judge.Row) {
			s.redeem(row, s.step(row, 1, false, gatewayKey), gatewayKey, "k", false)
			s.refusedRedeem(row, gatewayKey, "k", "check_already_redeemed", "")
		}, "G14", "it was its own"},
		"refused as redeemed by nobody": {func(s *builder, row *judge.Row) {
			s.refusedRedeem(row, gatewayKey, "k", "check_already_redeemed", "")
		}, "G14", "nobody had redeemed it"},
		"refused as reported by nobody": {func(s *builder, row *judge.Row) {
			s.refusedRedeem(row, gatewayKey, "k", "check_released", "")
		}, "G14", "nothing was reported"},
		"refused as stopped with its key, which is active again": {func(s *builder, row *judge.Row) {
			s.patch(`{"active":false}`)
			s.patch(`{"active":true}`)
			s.refusedRedeem(row, gatewayKey, "k", "check_stopped", "")
		}, "", ""},
		"refused as stopped by a change that may arrive late": {func(s *builder, row *judge.Row) {
			s.fault(judge.Fault{})
			fail(s.patch(`{"active":false}`))
			s.refusedRedeem(row, gatewayKey, "k", "check_stopped", "")
		}, "", ""},
		"refused as stopped by nobody": {func(s *builder, row *judge.Row) {
			s.refusedRedeem(row, gatewayKey, "k", "check_stopped", "")
		}, "G14", "its key was not deactivated"},
		"redeemed before its key is deactivated, and replayed": {func(s *builder, row *judge.Row) {
			of := s.step(row, 1, false, gatewayKey)
			s.redeem(row, of, gatewayKey, "k", false)
			s.patch(`{"active":false}`)
			s.redeem(row, of, gatewayKey, "k", true)
		}, "", ""},
		"redeemed though its key was deactivated": {func(s *builder, row *judge.Row) {
			s.patch(`{"active":false}`)
			s.patch(`{"active":true}`)
			s.redeem(row, s.step(row, 1, false, gatewayKey), gatewayKey, "k", false)
		}, "G17", "is redeemed though its key was deactivated"},
		"given again though its key was deactivated": {func(s *builder, _ *judge.Row) {
			_, keyed := s.decided(action{to: "b", amount: "10", key: "k"})
			s.patch(`{"active":false}`)
			s.patch(`{"active":true}`)
			s.answer(s.ask(action{to: "b", amount: "10", key: "k"}), keyed, true)
		}, "G17", "is given again"},
		"refused for nothing": {func(s *builder, row *judge.Row) {
			s.refusedRedeem(row, gatewayKey, "k", "check_expired", "")
		}, "G14", "nothing is wrong"},
		"a report refused as of what is redeemed": {func(s *builder, row *judge.Row) {
			o := s.redeem(row, &judge.Redemption{}, executorKey, "", false)
			o.Kind = judge.Report
			refuse(o, 409, "check_already_redeemed")
		}, "G14", "a report was refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			s.Keys = append(s.Keys, judge.Key{ID: gatewayKey, Limit: 100, Role: "gateway"}, judge.Key{ID: otherKey, Limit: 100, Role: "gateway"},
				judge.Key{ID: executorKey, Limit: 100, Role: "executor"}, judge.Key{ID: agentKey, Limit: 100})
			_, row := s.decided(action{to: "a", amount: "10"})
			c.change(s, row)
			found := must.Get(judge.Judge(&s.History))(t)
			for _, f := range found {
				if f.Rule != c.rule || !strings.Contains(f.Text, c.says) {
					t.Errorf("found %s", f)
				}
			}
			if len(found) == 0 && c.rule != "" {
				t.Errorf("not found: %s", c.says)
			}
		})
	}
}
