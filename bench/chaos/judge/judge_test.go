package judge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"spendgate/bench/chaos/judge"
)

// Histories that the contract allows, in edge cases.
func TestAllowed(t *testing.T) {
	for name, change := range map[string]func(s *builder){
		"every decision and a duplicate": func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			s.duplicate(action{to: "a", amount: "10"}, row)
			s.decided(action{to: "b", amount: tooMuch})
		},
		"an amount spelt otherwise": func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			o := s.ask(action{to: "b", amount: "1e1"})
			s.answer(o, s.record(action{to: "b", amount: "10"}, o.Sent), false)
			s.duplicate(action{to: "a", amount: "10.00"}, row)
		},
		"the next pass after the window": func(s *builder) {
			s.decided(action{to: "a", amount: "10"})
			s.now += 61 * second
			s.decided(action{to: "a", amount: "10"})
		},
		"a replay, and another request under the key": func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10", key: "k"})
			s.answer(s.ask(action{to: "a", amount: "10", key: "k"}), row, true)
			refuse(s.ask(action{to: "b", amount: "10", key: "k"}), 422, "validation_error")
		},
		"an old version for an earlier request": func(s *builder) {
			o, _ := s.decided(action{to: "a", amount: "10"})
			s.post(2).Sent = o.Done - ms
		},
		"a version without a confirmation": func(s *builder) {
			o := s.post(2)
			fail(o)
			s.Faults = []judge.Fault{{From: o.Sent, To: o.Done}}
			s.decided(action{to: "a", amount: "10"})
		},
		"a key while it changes": func(s *builder) {
			p := s.patch(`{"active":false}`)
			refuse(s.ask(action{to: "a", amount: "10"}), 401, "api_key_inactive")
			_, _ = s.patch(`{"active":true}`), p
			p = s.patch(`{"active":false}`)
			o, _ := s.decided(action{to: "b", amount: "10"})
			o.Sent = p.Done - ms
		},
		"a change of a key that arrives late": func(s *builder) {
			s.fault(judge.Fault{})
			fail(s.patch(`{"active":false}`))
			s.decided(action{to: "b", amount: "10"})
			refuse(s.ask(action{to: "a", amount: "10"}), 401, "api_key_inactive")
		},
		"a new rate window after Redis was lost": func(s *builder) {
			s.Keys[0].Limit = limit
			for range limit - 1 {
				s.decided(action{to: s.now.String(), amount: "10"})
			}
			s.fault(judge.Fault{Loses: true})
			s.now += ms
			for range limit {
				s.decided(action{to: s.now.String(), amount: "10"})
			}
		},
		"a failure in a fault, and its retry": func(s *builder) {
			s.fault(judge.Fault{})
			fail(s.ask(action{to: "a", amount: "10"}))
			s.decided(action{to: "a", amount: "10"})
		},
		"a check recorded but refused, answering its retry": func(s *builder) {
			s.fault(judge.Fault{})
			row := s.record(action{to: "a", amount: "10"}, s.now)
			fail(s.ask(action{to: "a", amount: "10"}))
			s.answer(s.ask(action{to: "a", amount: "10"}), row, true)
			s.duplicate(action{to: "a", amount: "10"}, row)
		},
		"a check recorded and its answer lost": func(s *builder) {
			s.fault(judge.Fault{Excuses: []string{"node0"}})
			row := s.record(action{to: "a", amount: "10"}, s.now)
			s.ask(action{to: "a", amount: "10"})
			s.duplicate(action{to: "a", amount: "10"}, row)
		},
		"an orphan whose mark was lost with Redis": func(s *builder) {
			s.fault(judge.Fault{Loses: true})
			row := s.record(action{to: "a", amount: "10"}, s.now)
			fail(s.ask(action{to: "a", amount: "10"}))
			s.duplicate(action{to: "a", amount: "10"}, row)
		},
		"a wait for a dead node's claim": func(s *builder) {
			s.fault(judge.Fault{Hangs: []string{"node1"}})
			o, _ := s.decided(action{to: "a", amount: "10"})
			o.Done += 4 * second
		},
		"a failure while waiting for what failed elsewhere": func(s *builder) {
			s.fault(judge.Fault{Excuses: []string{"node1"}})
			first := s.ask(action{to: "a", amount: "10"})
			fail(first)
			first.Via = "node1"
			second := s.ask(action{to: "a", amount: "10"})
			fail(second)
			second.Sent = first.Sent
		},
		"a failure while waiting for a key of another request that failed elsewhere": func(s *builder) {
			s.fault(judge.Fault{Excuses: []string{"node1"}})
			first := s.ask(action{to: "a", amount: "10", key: "k"})
			fail(first)
			first.Via = "node1"
			second := s.ask(action{to: "b", amount: "10", key: "k"})
			fail(second)
			second.Sent = first.Sent
		},
		"a failure while waiting for what hung elsewhere": func(s *builder) {
			s.fault(judge.Fault{Excuses: []string{"node1"}, Hangs: []string{"node1"}})
			first, _ := s.decided(action{to: "a", amount: "10", key: "k"})
			first.Via = "node1"
			second := s.ask(action{to: "a", amount: "20", key: "k"})
			fail(second)
			second.Sent = first.Sent
		},
		"a simulation": func(s *builder) {
			s.op(judge.Op{
				Kind: judge.Simulate, Status: 200, Request: json.RawMessage(`{}`),
				Answer: `{"policy_id":"p","policy_version":1,"results":[{"check_id":"chk_0123456789abcdef0123456789abcdef"}]}`,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			change(s)
			for _, f := range s.judged(t) {
				t.Error(f)
			}
		})
	}
}

// Each of these histories violates one rule once.
func TestViolated(t *testing.T) {
	type violation struct {
		rule, says string
		change     func(s *builder)
	}
	for name, v := range map[string]violation{
		"answered and not recorded": {"G1", "is not recorded", func(s *builder) {
			s.decided(action{to: "a", amount: "10"})
			s.Rows = nil
		}},
		"recorded otherwise": {"G1", "is recorded as", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			row.Confidence = "low"
		}},
		"recorded of another request": {"G1", "another request", func(s *builder) {
			o, _ := s.decided(action{to: "a", amount: "10"})
			o.Request = action{to: "b", amount: "10"}.request()
		}},
		"recorded under another API key": {"G1", "under the API key", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			row.KeyID = "key_2"
		}},
		"recorded without a request": {"G1", "without a request", func(s *builder) { s.record(action{to: "a", amount: "10"}, s.now) }},
		"recorded twice": {"G1", "one row more", func(s *builder) {
			s.decided(action{to: "a", amount: "10"})
			row := s.record(action{to: "a", amount: "10"}, s.now)
			s.block(row, s.Rows[0].CheckID)
		}},
		"recorded after its answer": {"G1", "not in flight", func(s *builder) {
			o, row := s.decided(action{to: "a", amount: "10"})
			row.AtMS += 5000
			s.answer(o, row, false)
		}},
		"read otherwise": {"G1", "and read as", func(s *builder) {
			o, row := s.decided(action{to: "a", amount: "10"})
			s.op(judge.Op{Kind: judge.Get, Subject: row.CheckID, Status: 200, Answer: o.Answer + " "})
		}},
		"read in vain": {"G1", "then read as 404", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			refuse(s.op(judge.Op{Kind: judge.Get, Subject: row.CheckID}), 404, "check_not_found")
		}},
		"a block without violation": {"G1", "has no violation", func(s *builder) {
			s.decided(action{to: "a", amount: tooMuch})
			s.Violations = nil
		}},
		"a violation of an allow": {"G1", "a violation of no check", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			s.Violations = append(s.Violations, judge.Violation{CheckID: row.CheckID})
		}},
		"a violation that says something else": {"G1", "the violation of", func(s *builder) {
			s.decided(action{to: "a", amount: tooMuch})
			s.Violations[0].Amount = "5"
		}},
		"two rows under a key": {"G2", "recorded 2 times", func(s *builder) {
			a := action{to: "a", amount: "10", key: "k"}
			_, row := s.decided(a)
			s.answer(s.ask(a), row, true)
			s.block(s.record(a, s.now), row.CheckID)
		}},
		"two answers under a key": {"G2", "has two answers", func(s *builder) {
			a := action{to: "a", amount: "10", key: "k"}
			_, row := s.decided(a)
			o := s.ask(a)
			s.answer(o, row, true)
			o.Answer += " "
		}},
		"a key's first answer sent twice": {"G1", "each as its own", func(s *builder) {
			a := action{to: "a", amount: "10", key: "k"}
			_, row := s.decided(a)
			s.answer(s.ask(a), row, false)
		}},
		"another request replayed": {"G2", "another request", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10", key: "k"})
			s.answer(s.ask(action{to: "b", amount: "10", key: "k"}), row, true)
		}},
		"a key refused against nothing": {"G2", "no other request", func(s *builder) {
			refuse(s.ask(action{to: "a", amount: "10", key: "k"}), 422, "validation_error")
		}},
		"two passes": {"G3", "passed as the same action", func(s *builder) {
			s.decided(action{to: "a", amount: "10"})
			s.decided(action{to: "a", amount: "10.0"})
		}},
		"two passes under two keys": {"G3", "passed as the same action", func(s *builder) {
			s.decided(action{to: "a", amount: "10", key: "k"})
			s.now += 50 * second
			s.decided(action{to: "a", amount: "10", key: "l"})
		}},
		"a duplicate of nothing": {"G3", "which is not recorded", func(s *builder) {
			s.duplicate(action{to: "a", amount: "10"}, &judge.Row{CheckID: "chk_" + strings.Repeat("f", 32)})
		}},
		"a duplicate of another action": {"G3", "did not pass as the same", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			s.duplicate(action{to: "b", amount: "10"}, row)
		}},
		"a duplicate after the window": {"G3", "the window is", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			s.now += 70 * second
			s.duplicate(action{to: "a", amount: "10"}, row)
		}},
		"a duplicate recorded without one": {"G3", "as passed (false), as a duplicate (false)", func(s *builder) {
			_, row := s.decided(action{to: "a", amount: "10"})
			row.ClaimedMS = nil
		}},
		"an old version": {"G4", "had been confirmed", func(s *builder) {
			s.post(2)
			s.decidedBy(1)
		}},
		"an old version simulated": {"G4", "simulated by version 1", func(s *builder) {
			s.post(2)
			s.op(judge.Op{Kind: judge.Simulate, Status: 200, Request: json.RawMessage(`{}`), Answer: `{"policy_id":"p","policy_version":1}`})
		}},
		"the rules of another version": {"G4", "says block by", func(s *builder) {
			s.post(2)
			o, row := s.decided(action{to: "a", amount: tooMuch})
			old := "cap-1"
			row.RuleID, s.Violations[0].RuleID = &old, old
			s.answer(o, row, false)
		}},
		"a version confirmed twice": {"G4", "confirmed twice", func(s *builder) {
			o := s.post(2)
			s.Policies = s.Policies[:2]
			again := *o
			again.Sent, again.Done = s.now, s.now
			s.Ops = append(s.Ops, again)
		}},
		"a version that is missing": {"G4", "but not 2", func(s *builder) {
			fault := s.post(2)
			s.post(3)
			*fault = judge.Op{Kind: judge.Get, Status: 404}
			s.Policies = append(s.Policies[:1:1], s.Policies[2])
		}},
		"a version stored otherwise": {"G4", "not what is stored", func(s *builder) {
			s.Policies[0].Rules = json.RawMessage(strings.Replace(string(s.Policies[0].Rules), "100", "101", 1))
		}},
		"an inactive key admitted": {"G5", "was admitted", func(s *builder) {
			s.patch(`{"active":false}`)
			s.decided(action{to: "a", amount: "10"})
		}},
		"an active key refused": {"G5", "is active and was refused", func(s *builder) {
			s.patch(`{"active":false}`)
			s.patch(`{"active":true}`)
			refuse(s.ask(action{to: "a", amount: "10"}), 401, "api_key_inactive")
		}},
		"a known key unknown": {"G5", "refused as unauthorized", func(s *builder) {
			s.patch(`{"active":false}`)
			refuse(s.ask(action{to: "a", amount: "10"}), 401, "unauthorized")
		}},
		"one more than the limit": {"G6", "was admitted", func(s *builder) {
			s.Keys[0].Limit = limit
			for range limit { // and the policy
				s.decided(action{to: s.now.String(), amount: "10"})
			}
		}},
		"a limit that was lowered": {"G6", "was admitted", func(s *builder) {
			s.Keys[0].Limit = limit
			s.patch(`{"rate_limit_rpm":4}`)
			s.fault(judge.Fault{Loses: true})
			s.now += ms
			for range 9 { // an older window may end, too
				s.decided(action{to: s.now.String(), amount: "10"})
			}
		}},
		"a limit that was not reached": {"G6", "after 1 requests", func(s *builder) {
			refuse(s.ask(action{to: "a", amount: "10"}), 429, "rate_limit_exceeded")
		}},
		"a failure without fault": {"G7", "without a fault", func(s *builder) { fail(s.ask(action{to: "a", amount: "10"})) }},
		"a failure long after a fault": {"G7", "without a fault", func(s *builder) {
			s.fault(judge.Fault{})
			s.now += 3100 * ms
			fail(s.ask(action{to: "a", amount: "10"}))
		}},
		"a failure of another node": {"G7", "without a fault", func(s *builder) {
			s.fault(judge.Fault{Excuses: []string{"node1", judge.Balancer}})
			fail(s.ask(action{to: "a", amount: "10"}))
		}},
		"a failure without Retry-After": {"G7", "in another form than specified", func(s *builder) {
			s.fault(judge.Fault{})
			o := s.ask(action{to: "a", amount: "10"})
			fail(o)
			o.Retry = false
		}},
		"an answer too late": {"G7", "was answered after", func(s *builder) {
			s.fault(judge.Fault{})
			o := s.ask(action{to: "a", amount: "10"})
			fail(o)
			o.Done += 3 * second
		}},
		"a retry blocked by its orphan": {"G7", "blocks its retry", func(s *builder) {
			s.fault(judge.Fault{})
			row := s.record(action{to: "a", amount: "10"}, s.now)
			fail(s.ask(action{to: "a", amount: "10"}))
			s.duplicate(action{to: "a", amount: "10"}, row)
		}},
		"a keyed retry blocked by its orphan": {"G3", "which is not recorded", func(s *builder) {
			s.fault(judge.Fault{})
			a := action{to: "a", amount: "10", key: "k"}
			fail(s.ask(a))
			s.duplicate(a, &judge.Row{CheckID: "chk_" + strings.Repeat("f", 32)})
		}},
		"an orphan that answers twice": {"G7", "more than one request", func(s *builder) {
			s.fault(judge.Fault{})
			row := s.record(action{to: "a", amount: "10"}, s.now)
			fail(s.ask(action{to: "a", amount: "10"}))
			for range 2 {
				s.answer(s.ask(action{to: "a", amount: "10"}), row, true)
			}
		}},
		"a trail that is not proved": {"G8", "altered check", func(s *builder) {
			s.Run.Unproved = "altered check chk_1: its row is another one\n"
		}},
		"a backtest with a flip": {"S53", "decided otherwise", func(s *builder) {
			s.Run.Flipped = "chk_1 of p, version 1, is decided otherwise by the same version\n"
		}},
		"a simulation recorded": {"G10", "was simulated and is recorded", func(s *builder) {
			o, row := s.decided(action{to: "a", amount: "10"})
			_ = o
			s.op(judge.Op{
				Kind: judge.Simulate, Status: 200, Request: json.RawMessage(`{}`),
				Answer: `{"policy_id":"p","policy_version":1,"results":[{"check_id":"` + row.CheckID + `"}]}`,
			})
		}},
		"a failure in a rolling restart": {"G11", "without a fault", func(s *builder) {
			s.fault(judge.Fault{Excuses: []string{"node0"}, Rolls: true})
			s.Faults[0].To += second
			s.ask(action{to: "a", amount: "10"}).Via = judge.Balancer
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			v.change(s)
			findings := s.judged(t)
			if len(findings) == 0 {
				t.Fatal("nothing found")
			}
			for _, f := range findings {
				if f.Rule != v.rule || !strings.Contains(f.Text, v.says) {
					t.Errorf("found %s; want only %s: ...%s...", f, v.rule, v.says)
				}
			}
		})
	}
}

// A text that is not JSON is refused.
func TestUnreadable(t *testing.T) {
	if _, err := judge.Read(strings.NewReader(`{"ops":`)); err == nil {
		t.Error("half a history was read")
	}
	s := newBuilder()
	s.ask(action{to: "a", amount: "10"}).Request = json.RawMessage(`[]`)
	if _, err := judge.Judge(&s.History); err == nil {
		t.Error("a request that is no object was judged")
	}
}
