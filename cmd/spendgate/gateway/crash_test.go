package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
	"spendgate/hotpath/client/pay"
)

func isReport(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/outcome") }
func isCheck(r *http.Request) bool  { return r.URL.Path == "/v1/checks" && r.Method == http.MethodPost }

// TestLostAnswer (P2): the answer of the service is lost, and the same nonce asks again.
func TestLostAnswer(t *testing.T) {
	s, p := newService(t), newProvider(t)
	agent := agentOver(t, guarded(t, s, p, "", ""))
	lost := 0
	s.breaks(func(r *http.Request) (bool, bool) {
		if !isCheck(r) || lost == 2 {
			return false, false
		}
		lost++
		return lost == 1, true
	})
	wants(t, agent, "ch_1", 1, stateExecuted, "paid")
	s.became(t, "executed")
}

// TestServiceGone (P2): without an answer nothing is carried out, also later.
func TestServiceGone(t *testing.T) {
	s, p := newService(t), newProvider(t)
	g := guarded(t, s, p, "", "")
	g.guard = pay.New(pay.Options{Client: s.own, Unanswered: time.Second})
	agent := agentOver(t, g)
	s.breaks(func(*http.Request) (bool, bool) { return true, false })
	wants(t, agent, "ch_1", 1, stateError, "Call again later")
	s.breaks(nil)
	if s.became(t); len(p.paid()) != 0 {
		t.Error(p.paid())
	}
	wants(t, agent, "ch_1", 1, stateExecuted, "paid")
}

// TestReportedLater (P8): a report that the service does not take is made again.
func TestReportedLater(t *testing.T) {
	s, p := newService(t), newProvider(t)
	g := guarded(t, s, p, "", "")
	agent := agentOver(t, g)
	s.breaks(func(r *http.Request) (bool, bool) { return isReport(r), false })
	wants(t, agent, "ch_1", 1, stateExecuted, "paid")
	wants(t, agentOver(t, guarded(t, s, p, "", "")), "ch_1", 1, stateInDoubt, "In progress: another call may still")
	s.breaks(nil)
	g.guard.Wait()
	wants(t, agent, "ch_1", 1, stateAlready, "re_1")
	s.became(t, "executed")
}

// TestAtOnce (P4): of equal calls at once, in two gateways, one pays and the other waits for it (G16).
func TestAtOnce(t *testing.T) {
	for name, more := range map[string]string{"without a key": "", "with a key": withKey, "once": "        once: true\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newService(t), newProvider(t)
			p.slow = 100 * time.Millisecond
			more := more + "        wait_seconds: 20\n"
			agents := []*sdk.ClientSession{agentOver(t, guarded(t, s, p, "", more)), agentOver(t, guarded(t, s, p, "", more))}
			states := make(chan string, 6)
			var calls sync.WaitGroup
			for i := range cap(states) {
				calls.Go(func() { state, _ := refund(t, agents[i%2], "ch_1", 1); states <- state })
			}
			calls.Wait()
			count := make(map[string]int)
			for range cap(states) {
				count[<-states]++
			}
			if count[stateExecuted] != 1 || count[stateAlready] != cap(states)-1 || len(p.paid()) != 1 {
				t.Error(count, p.paid())
			}
		})
	}
}

// TestNotSent (P5): a server that cannot be reached got nothing: the check is given back.
func TestNotSent(t *testing.T) {
	s, p := newService(t), newProvider(t)
	target := must.Get(url.Parse(p.url))(t)
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	t.Cleanup(front.Close)
	p.url = front.URL
	s.breaks(func(r *http.Request) (bool, bool) {
		if isCheck(r) {
			_ = front.Listener.Close()
			front.CloseClientConnections()
			time.Sleep(fresh + 200*time.Millisecond) // the client's side notices
		}
		return false, false
	})
	agent := agentOver(t, guarded(t, s, p, "", ""))
	wants(t, agent, "ch_1", 1, stateError, "Call again later")
	s.became(t, "voided")
}

// dies is a transport whose connections break when a payment was made.
type dies struct {
	base http.RoundTripper
	p    *provider
}

func (d dies) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.base.RoundTrip(r)
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	if d.p.calls == 1 && err == nil {
		d.p.calls++
		_ = response.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return response, err
}

// TestDiesAfterPaying (P6): if a server executes and dies, the call is in doubt, or is repeated under the same key.
func TestDiesAfterPaying(t *testing.T) {
	for name, test := range map[string]struct{ more, state string }{"without": {"", stateInDoubt}, "with": {withKey, stateExecuted}} {
		t.Run(name, func(t *testing.T) {
			s, p := newService(t), newProvider(t)
			g := guarded(t, s, p, "", test.more)
			g.dial = func(l *link) sdk.Transport {
				c := newRemote(l)
				c.DisableStandaloneSSE = true
				over := c.HTTPClient.Transport.(*remote)
				over.base = dies{over.base, p}
				return c
			}
			wants(t, agentOver(t, g), "ch_1", 1, test.state, "")
			if len(p.paid()) != 1 {
				t.Error(p.paid())
			}
			s.became(t, map[string]string{"without": "in_doubt", "with": "executed"}[name])
		})
	}
}

// TestCancelled (P9): a call that the agent cancels before anything was sent is given back; one that is carried out is finished and
// reported.
func TestCancelled(t *testing.T) {
	for _, e := range eras() {
		t.Run(e.version+"/"+e.transport, func(t *testing.T) {
			t.Parallel()
			s, p := newService(t), newProvider(t)
			listen := ""
			if e.transport == "http" {
				listen = "listen: 127.0.0.1:0\n"
			}
			agent := e.reach(t, guarded(t, s, p, listen, ""), agentClient())
			cancelled := func(charge string, when chan struct{}) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-when; cancel() }()
				call := &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": charge, "amount": 1}}
				if _, err := agent.CallTool(ctx, call); !errors.Is(err, context.Canceled) {
					t.Error("was not cancelled")
				}
			}
			paying := make(chan struct{}, 9)
			p.behave = func(int) (bool, string, error) {
				paying <- struct{}{}
				time.Sleep(300 * time.Millisecond)
				return true, "", nil
			}
			cancelled("ch_1", paying)
			within(t, "reported", func() bool { return len(s.outcomes(t)) == 1 && s.outcomes(t)[0] == "executed" })
			asking := make(chan struct{})
			s.breaks(func(r *http.Request) (bool, bool) {
				if isCheck(r) {
					close(asking)
					s.breaks(nil)
					time.Sleep(300 * time.Millisecond)
				}
				return false, false
			})
			cancelled("ch_2", asking)
			within(t, "given back", func() bool { got := s.outcomes(t); return len(got) == 2 && got[1] == "voided" || len(got) == 1 })
			if got := p.paid(); len(got) != 1 {
				t.Error(got)
			}
		})
	}
}

// piped is a transport to a plain server over a pair of streams, as to a child. While held, the server reads only the text that it
// waits for already.
type piped struct {
	s     *plain
	held  sync.Mutex
	conn  sdk.Connection
	times int // that it connected
}

// Connect connects to the server.
func (p *piped) Connect(context.Context) (sdk.Connection, error) {
	p.times++
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		defer out.Close() //nolint:errcheck // a pipe's Close does not fail
		for lines := bufio.NewReader(in); ; {
			p.held.Lock()
			p.held.Unlock() //nolint:staticcheck // waits
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			w := httptest.NewRecorder()
			p.s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(line))))
			if w.Body.Len() > 0 {
				_, _ = out.Write(append(w.Body.Bytes(), '\n'))
			}
		}
	}()
	p.conn = newChildConn(fromServer, toServer, func() { _, _ = toServer.Close(), fromServer.Close() },
		func(jsonrpc.Message) {})
	return p.conn, nil
}

// overPipe makes a gateway whose server is behind a piped connection.
func overPipe(t *testing.T) (s *plain, f *service, over *piped, g *Gateway) {
	s, p := newPlain(t)
	f, over = newService(t), &piped{s: s}
	g = guarded(t, f, p, "", "")
	g.dial = func(*link) sdk.Transport { return over }
	return s, f, over, g
}

// TestQueuedCall (P5, P9): a call that waits for a server that does not read is taken back when the gateway stops, and is not sent later.
func TestQueuedCall(t *testing.T) {
	s, f, over, g := overPipe(t)
	agent := agentOver(t, g)
	wants(t, agent, "ch_1", 1, stateExecuted, "")
	f.breaks(func(r *http.Request) (bool, bool) {
		if isCheck(r) {
			over.held.Lock()
			for range 3 { // the server waits for one, and one is being written
				go func() { _ = over.conn.Write(t.Context(), &jsonrpc.Request{Method: "notifications/ours"}) }()
			}
			time.Sleep(50 * time.Millisecond)
			time.AfterFunc(300*time.Millisecond, g.stop)
		}
		return false, false
	})
	state, _ := refund(t, agent, "ch_2", 1)
	over.held.Unlock()
	time.Sleep(300 * time.Millisecond)
	if s.paid != 1 || state != stateError {
		t.Errorf("%d payments, %s", s.paid, state)
	}
	f.became(t, "executed", "voided")
}

// TestLongLine (P7): a line of a child that is too long puts the call that it answers in doubt, at once, and no other one.
func TestLongLine(t *testing.T) {
	s, f, over, g := overPipe(t)
	agent := agentOver(t, g)
	wants(t, agent, "ch_1", 1, stateExecuted, "")
	times := over.times
	s.with(func() { s.result = `{"content":[],"x":"` + strings.Repeat("x", maxServerMessage) + `"}` })
	wants(t, agent, "ch_2", 1, stateInDoubt, "a message that is too long")
	s.with(func() { s.result = `{"content":[]}` })
	wants(t, agent, "ch_3", 1, stateExecuted, "")
	if f.became(t, "executed", "in_doubt", "executed"); over.times != times {
		t.Error("the connection ended")
	}
	type line struct {
		call    any  // that it answers
		unnamed bool // and no call is named
	}
	for ends, want := range map[string]line{
		`{"jsonrpc": "2.0", "id" : 7, "result": {"id": 8}}`: {call: int64(7)}, `{"result":{"id":8},"jsonrpc":"2.0","id":7}`: {call: int64(7)},
		`{"result":{"id":8}}`: {unnamed: true}, `{"jsonrpc":"2.0","id":7,"method":"x","params":{}}`: {}, "a log line": {},
	} {
		m, unnamed := tooLong([]byte(ends))
		a, ok := m.(*jsonrpc.Response)
		if unnamed != want.unnamed || ok != (want.call != nil) || ok && a.ID.Raw() != want.call {
			t.Errorf("%s: %+v, %t", ends, a, unnamed)
		}
	}
}
