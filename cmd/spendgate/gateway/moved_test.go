package gateway

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// piped is a connection to a plain server over a pair of streams, as a child process has. While
// reading is held, the server reads only the text that it waits for already.
type piped struct {
	conn
	queue   *queue
	reads   int
	serving chan struct{} // closed when the link has the connection
}

func (s *plain) pipe(reading *sync.Mutex) *piped {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		defer out.Close() //nolint:errcheck // a pipe's Close does not fail
		for lines := bufio.NewReader(in); ; {
			reading.Lock()
			reading.Unlock() //nolint:staticcheck // waits
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(line)))
			if w.Body.Len() > 0 {
				_, _ = out.Write(append(w.Body.Bytes(), '\n'))
			}
		}
	}()
	q := newQueue(toServer)
	return &piped{queue: q, serving: make(chan struct{}), conn: newLines(fromServer, q, maxServerMessage, func() {
		_ = q.Close()
		_ = fromServer.Close()
	})}
}

// sending reports whether a long text is queued, or is the only text left and being sent.
func (p *piped) sending(queued bool) bool {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	const note = 100 // bytes; a call has more
	if !queued {
		return len(p.queue.waiting) == 0 && p.queue.size > note
	}
	return slices.ContainsFunc(p.queue.waiting, func(text []byte) bool { return len(text) > note })
}

func (p *piped) read() (message, error) {
	if p.reads++; p.reads == 2 { // the first is for the answer to initialize
		close(p.serving)
	}
	return p.conn.read()
}

// A call goes to the connection over which its tool was compared, or it is compared again.
func TestMoved(t *testing.T) {
	for name, test := range map[string]struct {
		tool, state, outcome string
		paid                 int
	}{
		"another":  {strings.ReplaceAll(plainTool, "%s", "sends it to me"), stateRefused, "failed", 0},
		"the same": {strings.ReplaceAll(plainTool, "%s", "refunds"), stateExecuted, "executed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newPlain(t)
			f := newFakeService(t)
			g := guarded(t, f, p, "", "")
			var dialed []*piped
			g.dial = func(*upstream) (conn, error) {
				c := s.pipe(new(sync.Mutex))
				s.with(func() { dialed = append(dialed, c) })
				return c, nil
			}
			f.broken = func(path string) (bool, bool) {
				if strings.HasSuffix(path, "/redeem") {
					s.with(func() { s.tools[0] = test.tool; dialed[0].close() })
					within(t, "connected again", func() (so bool) { s.with(func() { so = len(dialed) > 1 }); return so })
					<-dialed[1].serving
				}
				return false, false
			}
			wants(t, agentOf(t, g), "ch_1", 1, test.state, "")
			if f.checks[0].outcome != test.outcome || s.paid != test.paid {
				t.Errorf("%d payments, outcome %q", s.paid, f.checks[0].outcome)
			}
		})
	}
}

// A call that waits for a server that does not read is withdrawn when it ends, and is not sent
// later. A call of which a part may have been sent is in doubt.
func TestQueuedCall(t *testing.T) {
	for name, test := range map[string]struct {
		before          int // calls sent before: the server holds one, and one is being written
		cancels         bool
		outcome         string
		doubt, mayBeHad bool
	}{
		"stopped, queued":       {before: 2, outcome: "failed"},
		"stopped, being sent":   {before: 1, doubt: true, mayBeHad: true},
		"cancelled, queued":     {before: 2, cancels: true, outcome: "failed"},
		"cancelled, being sent": {before: 1, cancels: true, outcome: "failed", mayBeHad: true}, // as on_error says
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newPlain(t)
			f := newFakeService(t)
			g := guarded(t, f, p, "", "        on_error: failed\n")
			reading, c := new(sync.Mutex), new(piped)
			g.dial = func(*upstream) (conn, error) { *c = *s.pipe(reading); return c.conn, nil }
			redeemed := make(chan struct{}, 1)
			f.broken = func(path string) (bool, bool) {
				if strings.HasSuffix(path, "/redeem") {
					reading.Lock()
					for range test.before {
						_ = c.write(message{Method: "notifications/ours"})
					}
					redeemed <- struct{}{}
				}
				return false, false
			}
			agent := agentOf(t, g)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-redeemed
				within(t, "the call is on its way", func() (so bool) { return c.sending(test.before > 1) })
				if test.cancels {
					cancel()
				} else {
					g.stop()
				}
			}()
			_, _ = agent.CallTool(ctx, &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_1", "amount": 1}})
			ended := func() (so bool) { f.with(func() { so = f.checks[0].outcome != "" || f.checks[0].doubt }); return so }
			within(t, "it is known what became of it", ended)
			if one := f.checks[0]; one.outcome != test.outcome || one.doubt != test.doubt {
				t.Errorf("outcome %q, in doubt %t", one.outcome, one.doubt)
			}
			_ = c.write(message{Method: "notifications/last"})
			reading.Unlock()
			within(t, "the server reads on", func() (so bool) {
				s.with(func() { so = slices.Contains(s.calls, "notifications/last") })
				return so
			})
			if s.paid > 0 && !test.mayBeHad {
				t.Error("what was taken back is paid")
			}
		})
	}
}

// listsLate answers a request for tools, after something else has happened.
type listsLate struct {
	noted
	l         *link
	meanwhile func(l *link)
}

func (s *listsLate) write(m message) error {
	go func() {
		s.meanwhile(s.l)
		s.l.receive(message{ID: m.ID, Result: jsontext.Value(`{"tools":[]}`)})
	}()
	return nil
}

// What a connection lists is not kept if there is another one by then, or its list has changed.
func TestListedMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(l *link){
		"nothing":            func(*link) {},
		"another connection": func(l *link) { l.mu.Lock(); l.conn = new(noted); l.mu.Unlock() },
		"a change":           func(l *link) { l.forgetTools() },
	} {
		g := &Gateway{file: &File{}, log: quiet(), stopping: t.Context()}
		l := newLink(&upstream{name: "psp"}, newSession(g, nil))
		l.conn = &listsLate{l: l, meanwhile: meanwhile}
		close(l.up)
		_, _, err := l.tools(t.Context(), 0)
		if kept := l.pins != nil; err != nil || kept != (name == "nothing") {
			t.Errorf("%s: kept %t, %v", name, kept, err)
		}
	}
}
