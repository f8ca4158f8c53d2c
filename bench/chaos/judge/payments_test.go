package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/must"
)

func TestPayments(t *testing.T) {
	for name, c := range map[string]struct {
		steps string // of a payment, each "check status", and "back"
		told  string // "check, number of the step, nonce sent, nonce answered"
		says  string // empty when it is allowed
	}{
		"given back, and redeemed again": {"a -, a redeemed, a failed back, b -, b redeemed", "b 4 n n", ""},
		"taken over, and both were told": {"a -, a redeemed, a taken_over, a executed", "a 1 n n, a 2 m m", ""},
		"retried":                        {"a -, a redeemed", "a 1 n n, a 1 n n", ""},
		"redeemed by two":                {"a -, b -, a redeemed, b redeemed", "", "comes while a is redeemed"},
		"asked again while redeemed":     {"a -, a redeemed, b -", "", "comes while a is redeemed"},
		"not given back":                 {"a -, a redeemed, a failed, b -", "", "comes while a is redeemed"},
		"executed, and asked again":      {"a -, a redeemed, a executed, b -", "", "comes while a is redeemed"},
		"taken over, not redeemed":       {"a -, a taken_over", "", "takes over what is not redeemed"},
		"a version twice":                {"a -, = a -", "", "makes version 1 behind version 1"},
		"told without a record":          {"a -", "a 7 n n", "not recorded"},
		"told of another check":          {"a -, a redeemed", "b 1 n n", "not recorded"},
		"told for another nonce":         {"a -, a redeemed", "a 1 n m", "another nonce"},
		"two told":                       {"a -, a redeemed", "a 1 n n, a 1 m m", "two nonces"},
		"told again of an earlier nonce": {"a -, a redeemed, a failed back, b -, b redeemed", "a 1 n n, b 4 n n", "earlier attempt"},
		"told after the end":             {"a -, a redeemed, a failed back", "a 1 n n", "that was over"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			version := int64(0)
			for i, step := range strings.Split(c.steps, ", ") {
				step, again := strings.CutPrefix(step, "= ")
				if !again {
					version++
				}
				part := strings.Fields(step)
				p := judge.PaymentStep{Payment: "k", Version: version, CheckID: part[0], AtMS: s.Run.Began.Add(s.now).UnixMilli(), Back: len(part) > 2}
				if part[1] != "-" {
					p.Status, p.ID = part[1], fmt.Sprint(i)
				}
				s.Payments = append(s.Payments, p)
				if c.says != "that was over" {
					continue
				}
				s.now += time.Second
			}
			for told := range strings.SplitSeq(c.told, ", ") {
				if part := strings.Fields(told); len(part) > 0 {
					s.op(judge.Op{
						Kind: judge.Pay, Key: gatewayKey, Subject: "k", Request: fmt.Appendf(nil, `{"redeem":%q}`, part[2]), Status: 200,
						Answer: fmt.Sprintf(`{"check_id":%q,"payment":{"proceed":true,"nonce":%q,"redemption_id":"rdm_%s"}}`, part[0], part[3], part[1]),
					})
				}
			}
			found := must.Get(judge.Judge(&s.History))(t)
			for _, f := range found {
				if f.Rule != "G16" || c.says == "" || !strings.Contains(f.Text, c.says) {
					t.Errorf("found %s", f)
				}
			}
			if len(found) == 0 && c.says != "" {
				t.Errorf("not found: %s", c.says)
			}
		})
	}
}
