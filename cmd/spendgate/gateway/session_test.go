package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// kept is a conn that keeps what is written to it.
type kept struct {
	conn
	written []string
}

func (k *kept) write(m message) error {
	k.written = append(k.written, strings.TrimSpace(string(m.ID)+" "+m.Method+" "+string(m.Params)+string(m.Result)))
	return nil
}
func (*kept) close() {}

// last returns what was written last, and forgets everything.
func (k *kept) last() string {
	defer func() { k.written = nil }()
	if len(k.written) == 0 {
		return ""
	}
	return k.written[len(k.written)-1]
}

// sessionOf returns a session with an agent, and servers that are connected.
func sessionOf(t *testing.T, names ...string) (s *session, agent *kept, servers []*kept) {
	t.Helper()
	file := &File{order: names, Upstreams: make(map[string]*upstream)}
	for _, name := range names {
		file.Upstreams[name] = &upstream{name: name}
	}
	agent = new(kept)
	s = newSession(&Gateway{file: file, log: quiet(), stopping: t.Context()}, agent)
	s.started = true
	t.Cleanup(s.cancel)
	for _, l := range s.links {
		server := new(kept)
		l.conn = server
		servers = append(servers, server)
	}
	return s, agent, servers
}

// A server cancels only what it asked itself, though others ask under the same identifier.
func TestCancelledQuestion(t *testing.T) {
	s, agent, _ := sessionOf(t, "one", "two", "three")
	const params = `{"_meta":{"progressToken":5}}`
	for i, l := range s.links[:2] {
		s.fromServer(l, message{ID: jsontext.Value("7"), Method: "sampling/createMessage", Params: jsontext.Value(params)})
		want := fmt.Sprintf(`"gateway-%d" sampling/createMessage {"_meta":{"progressToken":"gateway-%[1]d"}}`, i+1)
		if got := agent.last(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	cancel := message{Method: noteCancelled, Params: jsontext.Value(`{"requestId":7}`)}
	for i, want := range []string{"", `notifications/cancelled {"requestId":"gateway-2"}`, ""} {
		if s.fromServer(s.links[[]int{2, 1, 1}[i]], cancel); agent.last() != want {
			t.Errorf("cancel %d is not passed on as %q", i, want)
		}
	}
	if len(s.asked) != 1 || s.asked[`"gateway-1"`].link != s.links[0] || len(s.tokens) != 1 {
		t.Error("of the first server's question alone something remains", s.asked, s.tokens)
	}
}

// An agent's cancellation reaches the server that has the request, and an answer that comes all the same
// is passed on; but cancelled requests do not add up.
func TestCancelledRequests(t *testing.T) {
	s, agent, servers := sessionOf(t, "one", "two")
	request := func(id int) {
		s.fromAgent(message{
			ID: jsontext.Value(fmt.Sprint(id)), Method: "prompts/get",
			Params: jsontext.Value(fmt.Sprintf(`{"name":"two__p","_meta":{"progressToken":"t%d"}}`, id)),
		})
		s.fromAgent(message{Method: noteCancelled, Params: jsontext.Value(fmt.Sprintf(`{"requestId":%d,"reason":"r"}`, id))})
	}
	request(1000)
	if got := servers[1].last(); got != `notifications/cancelled {"requestId":1,"reason":"r"}` || servers[0].written != nil {
		t.Error(got, servers[0].written)
	}
	s.links[1].receive(message{ID: jsontext.Value("1"), Result: jsontext.Value(`{"late":true}`)})
	if got := agent.last(); got != `1000  {"late":true}` {
		t.Errorf("%q", got)
	}
	for i := range 3 * maxRequestsFlight {
		request(i)
	}
	if n := len(s.links[1].pending); n > maxRequestsFlight || len(s.progress) != 0 || len(s.flight) != 0 {
		t.Errorf("%d requests, %d progress tokens and %d in flight remain", n, len(s.progress), len(s.flight))
	}
}

// late is a conn over which the agent cancels a request while it is being sent.
type late struct {
	kept
	cancel func()
}

func (l *late) write(m message) error {
	if m.Method != noteCancelled {
		l.cancel()
	}
	return l.kept.write(m)
}

// A cancellation that comes while a request is being sent is not lost.
func TestCancelledSending(t *testing.T) {
	s, _, _ := sessionOf(t, "one")
	at := new(route)
	server := &late{cancel: func() { at.cancel(nil) }}
	s.links[0].conn = server
	at.start(s.links[0], message{Method: "prompts/get"}, func(message) {})
	if got := server.last(); got != `notifications/cancelled {"requestId":1}` {
		t.Errorf("%q", got)
	}
}
