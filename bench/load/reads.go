package load

import (
	"bytes"
	"fmt"
	"strconv"
)

// Lookups asks for recorded checks one after another (GET /v1/checks/{id}).
type Lookups struct {
	requests [][]byte
	next     int
}

// NewLookups makes the target of one worker, which asks for these checks.
func NewLookups(apiKeys, checkIDs []string) *Lookups {
	l := &Lookups{}
	for i, id := range checkIDs {
		l.requests = append(l.requests, fmt.Appendf(nil,
			"GET /v1/checks/%s HTTP/1.1\r\nHost: bench\r\nX-API-Key: %s\r\n\r\n", id, apiKeys[i%len(apiKeys)]))
	}
	return l
}

// AppendRequest implements Target.
func (l *Lookups) AppendRequest(dst []byte, _ *Action) []byte {
	l.next++
	return append(dst, l.requests[l.next%len(l.requests)]...)
}

// Judge implements Target.
func (l *Lookups) Judge(_ Verdict, _, body []byte) string {
	if !bytes.HasPrefix(body, []byte(`{"check_id":"chk_`)) {
		return "no check"
	}
	return ""
}

// Simulations asks for the same simulation again and again: it writes nothing,
// so the answer's summary stays the same.
type Simulations struct {
	requests [][]byte // by key
	next     int
	summary  []byte
}

// NewSimulations makes the target of one worker: simulations of n actions of a
// workload from a serial that is never sent as a check.
func NewSimulations(apiKeys []string, w Workload, from uint64, n int) *Simulations {
	const policy = 0
	body := fmt.Appendf(nil, `{"policy_id":%q,"actions":[`, PolicyID(policy))
	counts := make(map[Effect]int)
	var a Action
	for i, serial := 0, from; i < n; serial++ {
		if w.Action(serial, &a); a.Policy != policy {
			continue
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(AppendMembers(append(body, '{'), &a), '}')
		counts[a.Want.Effect]++
		i++
	}
	body = append(body, `]}`...)
	s := &Simulations{summary: fmt.Appendf(nil, `"summary":{"total":%d,"allowed":%d,"blocked":%d,"escalated":%d}`,
		n, counts[Allow], counts[Block], counts[Escalate])}
	for _, key := range apiKeys {
		s.requests = append(s.requests, AppendPost(nil, "/v1/simulate", "X-API-Key: "+key+"\r\n", body))
	}
	return s
}

// AppendRequest implements Target.
func (s *Simulations) AppendRequest(dst []byte, _ *Action) []byte {
	s.next++
	return append(dst, s.requests[s.next%len(s.requests)]...)
}

// Judge implements Target.
func (s *Simulations) Judge(_ Verdict, _, body []byte) string {
	if !bytes.Contains(body, s.summary) {
		return "wrong summary"
	}
	return ""
}

// Echo is a server that sends every request the same answer, to measure the cost
// of HTTP alone. Its requests are those of spendgate.
type Echo struct{ Spendgate }

// NewEcho makes the target of one worker.
func NewEcho(keys int) *Echo {
	names := make([]string, keys)
	for i := range names {
		names[i] = "svc_live_" + strconv.Itoa(1_000_000+i)
	}
	return &Echo{*NewSpendgate(names)}
}

// Judge implements Target: any answer is right.
func (e *Echo) Judge(Verdict, []byte, []byte) string { return "" }
