package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// session is one agent's connection, with connections of its own to all servers. It passes
// on every message that it does not interpret.
type session struct {
	gw     *Gateway
	agent  conn
	log    *slog.Logger
	ctx    context.Context //nolint:containedctx // ends with the session
	cancel context.CancelFunc
	links  []*link

	mu       sync.Mutex
	started  bool                // initialize came
	flight   map[string]*flying  // the agent's requests, by their identifiers
	asked    map[string]question // the servers' requests to the agent, by our identifiers
	progress map[string]string   // which of the agent's requests has a progress token
	tokens   map[string]question // the servers' progress tokens, by our tokens
	homes    map[string]*link    // which server listed a resource
	number   int64               // the last one used in asked and tokens
	calls    sync.WaitGroup      // mapped calls
}

// flying is a request of the agent's that is not answered.
type flying struct{ cancel func(reason jsontext.Value) }

// question is a request or a progress token of a server's, by the server's own identifier.
type question struct {
	link *link
	id   jsontext.Value
}

func newSession(gw *Gateway, agent conn) *session {
	s := &session{
		gw: gw, agent: agent, log: gw.log, flight: make(map[string]*flying), asked: make(map[string]question),
		progress: make(map[string]string), tokens: make(map[string]question), homes: make(map[string]*link),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, name := range gw.file.order {
		s.links = append(s.links, newLink(gw.file.Upstreams[name], s))
	}
	return s
}

// run serves the agent until its connection ends, and then finishes what is in flight:
// mapped calls, and for a while the others.
func (s *session) run() {
	s.gw.metrics.sessions.Inc()
	defer s.gw.metrics.sessions.Dec()
	for {
		m, err := s.agent.read()
		if err != nil {
			break
		}
		s.fromAgent(m)
	}
	for end := time.Now().Add(patience); s.busy() && time.Now().Before(end) && s.gw.stopping.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
	s.calls.Wait()
	s.cancel()
	s.agent.close()
}

func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flight) > 0
}

// several reports whether there is more than one server, so that names have prefixes.
func (s *session) several() bool { return len(s.links) > 1 }

// fromAgent handles a message of the agent's.
func (s *session) fromAgent(m message) {
	switch {
	case m.isResponse():
		s.answerServer(m)
	case !m.hasID():
		s.noteFromAgent(m)
	case m.Method == methodPing:
		s.reply(message{ID: m.ID, Result: jsontext.Value("{}")})
	case m.Method == methodInitialize:
		s.initialize(m)
	case !s.ready():
		s.reply(failed(m.ID, &fault{Code: jsonrpc.CodeMethodNotFound, Message: "initialize comes first"}))
	default:
		s.requestFromAgent(m)
	}
}

func (s *session) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// reply sends a response to the agent, whose request is over then.
func (s *session) reply(m message) {
	s.landed(string(m.ID))
	s.send(m)
}

// landed forgets a request of the agent's, and returns it; nil if there is none.
func (s *session) landed(id string) *flying {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.progress, func(_, of string) bool { return of == id })
	request := s.flight[id]
	delete(s.flight, id)
	return request
}

func (s *session) send(m message) {
	if err := s.agent.write(m); err != nil && s.ctx.Err() == nil {
		s.log.Debug("a message did not reach the agent", "error", err)
	}
}

// fly registers a request of the agent's. It refuses the request, and returns false, if its
// identifier is in use or there are too many requests.
func (s *session) fly(m message, cancel func(reason jsontext.Value)) bool {
	s.mu.Lock()
	_, twice := s.flight[string(m.ID)]
	full := len(s.flight) >= maxRequestsFlight
	if !twice && !full {
		s.flight[string(m.ID)] = &flying{cancel}
		if token := tokenOf(m.Params); token != nil {
			s.progress[string(token)] = string(m.ID)
		}
	}
	s.mu.Unlock()
	switch {
	case twice:
		s.send(failed(m.ID, &fault{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is in flight"}))
	case full:
		s.send(failed(m.ID, &fault{Code: codeUnavailable, Message: "too many requests in flight; try again when some were answered"}))
	}
	return !twice && !full
}

// flyOn registers a request that servers are asked for. Over HTTP an exchange ends with a response, which a server owes nobody
// for a request that was cancelled.
func (s *session) flyOn(at *route, m message) bool {
	return s.fly(m, func(reason jsontext.Value) {
		at.cancel(reason)
		if a, exchanges := s.agent.(*remoteAgent); exchanges {
			a.answerLater(failed(m.ID, &fault{Code: codeUnavailable, Message: errCancelled.Error()}))
		}
	})
}

// tokenOf returns the progress token of parameters, nil if there is none.
func tokenOf(params jsontext.Value) jsontext.Value {
	var with struct {
		Meta struct {
			Token jsontext.Value `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(params, &with, lax()) // the receiver reports what is wrong
	return with.Meta.Token
}

// noteFromAgent passes on a notification.
func (s *session) noteFromAgent(m message) {
	switch m.Method {
	case noteInitialized: // each server was told when it was ready
	case noteCancelled:
		s.cancelled(m)
	case noteProgress:
		s.mu.Lock()
		to, ours := s.tokens[string(progressOf(m.Params))]
		s.mu.Unlock()
		if ours {
			to.link.notify(message{Method: m.Method, Params: replaced(m.Params, "progressToken", to.id)})
			return
		}
		s.broadcast(message{Method: m.Method, Params: m.Params})
	default:
		// Some servers carry out a request without an identifier (G15).
		if !strings.HasPrefix(m.Method, "notifications/") || likeCall(m.Method) {
			s.log.Debug("a message that is neither a request nor a notification is dropped", "method", m.Method)
			return
		}
		s.broadcast(message{Method: m.Method, Params: m.Params})
	}
}

func (s *session) broadcast(m message) {
	for _, l := range s.links {
		l.notify(m)
	}
}

// cancelled cancels a request of the agent's at the server that has it.
func (s *session) cancelled(m message) {
	var params struct {
		RequestID jsontext.Value `json:"requestId"`
		Reason    jsontext.Value `json:"reason"`
	}
	if err := json.Unmarshal(m.Params, &params, lax()); err != nil {
		return
	}
	if request := s.landed(string(params.RequestID)); request != nil {
		request.cancel(params.Reason)
	}
}

// answerServer passes the agent's response to the server that asked.
func (s *session) answerServer(m message) {
	s.mu.Lock()
	to, known := s.asked[string(m.ID)]
	delete(s.asked, string(m.ID))
	delete(s.tokens, string(m.ID))
	s.mu.Unlock()
	if known {
		to.link.notify(message{ID: to.id, Result: m.Result, Error: m.Error})
	}
}

// fromServer passes a request or notification of a server on to the agent.
func (s *session) fromServer(l *link, m message) {
	about := m.about
	m.about = ""
	switch {
	case m.hasID() && m.Method == methodPing:
		l.notify(message{ID: m.ID, Result: jsontext.Value("{}")})
		return
	case m.hasID():
		s.ask(l, &m)
	case m.Method == noteCancelled:
		if !s.cancelQuestion(l, &m) {
			return
		}
	case m.Method == noteProgress:
		s.mu.Lock()
		m.about = s.progress[string(progressOf(m.Params))]
		s.mu.Unlock()
	}
	if m.about == "" && about != "" {
		m.about = l.requester(about)
	}
	s.send(m)
}

// ask gives a server's request an identifier that no other server's has.
func (s *session) ask(l *link, m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	id := quote("gateway-" + strconv.FormatInt(s.number, 10))
	s.asked[string(id)] = question{l, m.ID}
	m.ID = id
	if token := tokenOf(m.Params); token != nil && len(s.links) > 1 {
		s.tokens[string(id)] = question{l, token}
		m.Params = replacedIn(m.Params, "_meta", "progressToken", id)
	}
}

// cancelQuestion handles a notification by which a server cancels its request to the agent: it
// replaces the request's identifier by ours. It returns false if there is no such request.
func (s *session) cancelQuestion(l *link, m *message) bool {
	var params struct {
		RequestID jsontext.Value `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &params, lax()) // a notification that names no request cancels nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, q := range s.asked {
		if q.link == l && string(q.id) == string(params.RequestID) {
			delete(s.asked, id)
			delete(s.tokens, id)
			m.Params = replaced(m.Params, "requestId", jsontext.Value(id))
			return true
		}
	}
	return false
}

// forget drops the requests and progress tokens of a server that is gone.
func (s *session) forget(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range []map[string]question{s.asked, s.tokens} {
		for id, q := range of {
			if q.link == l {
				delete(of, id)
			}
		}
	}
}

func progressOf(params jsontext.Value) jsontext.Value {
	var with struct {
		Token jsontext.Value `json:"progressToken"`
	}
	_ = json.Unmarshal(params, &with, lax()) // without a token it belongs to no request
	return with.Token
}

// replaced returns an object with the value of a member replaced. Anything but an object stays
// as it is.
func replaced(text jsontext.Value, name string, value jsontext.Value) jsontext.Value {
	o, err := parseObject(text)
	if err != nil {
		return text
	}
	return o.with(name, value).text()
}

func replacedIn(text jsontext.Value, outer, name string, value jsontext.Value) jsontext.Value {
	o, err := parseObject(text)
	if err != nil {
		return text
	}
	return o.with(outer, replaced(o.get(outer), name, value)).text()
}

// failure returns the error of JSON-RPC for a request that no server answered.
func failure(u *upstream, err error) error {
	if errors.Is(err, errNotSent) {
		return &fault{Code: codeUnavailable, Message: fmt.Sprintf("the server %s cannot be reached; it is started again", u.name)}
	}
	return &fault{Code: codeUnavailable, Message: fmt.Sprintf("the connection to the server %s was lost during the request", u.name)}
}
