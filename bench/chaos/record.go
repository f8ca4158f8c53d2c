package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// recorder writes the history while it happens.
type recorder struct {
	began time.Time

	mu      sync.Mutex
	history judge.History
}

func newRecorder(seed uint64) *recorder {
	now := time.Now()
	return &recorder{began: now, history: judge.History{Run: judge.Run{Seed: seed, Began: now}}}
}

// now returns the time since the beginning.
func (r *recorder) now() time.Duration { return time.Since(r.began) }

func (r *recorder) addOp(o judge.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.ID = len(r.history.Ops) + 1
	r.history.Ops = append(r.history.Ops, o)
}

func (r *recorder) addFault(f judge.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Faults = append(r.history.Faults, f)
}

func (r *recorder) addKey(k judge.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Keys = append(r.history.Keys, k)
}

// addPrincipal notes who is behind a key.
func (r *recorder) addPrincipal(id, principal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.history.Keys {
		if k := &r.history.Keys[i]; k.ID == id {
			k.Principal = principal
		}
	}
}

// watchMachine records a fault when this process, and so probably the whole machine, was not
// scheduled: then no answer could be in time.
func (r *recorder) watchMachine(ctx context.Context) {
	const every, stalled = 20 * time.Millisecond, 250 * time.Millisecond
	for last := r.now(); ctx.Err() == nil; {
		time.Sleep(every)
		now := r.now()
		if now-last > stalled {
			everywhere := []string{judge.Balancer}
			for i := range nodeCount {
				everywhere = append(everywhere, nodeName(i))
			}
			r.addFault(judge.Fault{Name: "the machine stalls", From: last, To: now, Hangs: everywhere})
		}
		last = now
	}
}

// patience is how long a client waits for an answer.
const patience = 10 * time.Second

// sender sends the requests of one agent over connections of its own, and
// records them.
type sender struct {
	rec        *recorder
	agent      string
	deployment *deployment
	steady     *http.Client
	fresh      *http.Client // a new connection each time
}

func newSender(s *deployment, rec *recorder, agent string) *sender {
	return &sender{
		rec: rec, agent: agent, deployment: s,
		steady: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: patience},
		fresh:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience},
	}
}

func (s *sender) close() { s.steady.CloseIdleConnections() }

// apiKey is an API key of a sender.
type apiKey struct{ id, raw string }

// outgoing is a request to be sent.
type outgoing struct {
	kind    judge.Kind
	via     int // a node's number; nodeCount is the balancer
	key     apiKey
	method  string
	path    string
	subject string
	body    any
	fresh   bool
}

// send sends a request, waits for the answer and records both.
func (s *sender) send(l outgoing) fleet.Answer {
	c := &fleet.Client{Key: l.key.raw, HTTP: s.steady}
	op := judge.Op{Kind: l.kind, Agent: s.agent, Key: l.key.id, Subject: l.subject}
	if l.via < nodeCount {
		c.Base, op.Via = s.deployment.Nodes[l.via].API, nodeName(l.via)
	} else {
		c.Base, op.Via = s.deployment.balancer.API, judge.Balancer
	}
	if l.kind == judge.Patch || l.kind == judge.Freeze || l.kind == judge.Thaw {
		c.AdminKey = s.deployment.AdminKey
	}
	if l.fresh {
		c.HTTP = s.fresh
	}
	var body any
	if l.body != nil {
		text, err := json.Marshal(l.body)
		if err != nil {
			panic("BUG: a request that cannot be encoded: " + err.Error())
		}
		op.Request, body = text, json.RawMessage(text)
	}
	answer, err := c.Do(context.Background(), l.method, l.path, body)
	op.Sent, op.Done = answer.Sent.Sub(s.rec.began), answer.Done.Sub(s.rec.began)
	if err != nil {
		op.Error, answer.Status = err.Error(), 0
	} else {
		op.Status, op.Answer, op.Replayed = answer.Status, string(answer.Body), answer.Replayed()
		op.Retry = answer.Header.Get("Retry-After") != ""
	}
	s.rec.addOp(op)
	return answer
}

func nodeName(i int) string { return string(append([]byte("node"), byte('0'+i))) }
