package gateway

import (
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// requestFromAgent sends a request to the server that it is for.
func (s *session) requestFromAgent(m message) {
	if likeCall(m.Method) {
		s.send(failed(m.ID, &fault{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("there is no method %q", m.Method)}))
		return
	}
	switch m.Method {
	case methodCallTool:
		s.callTool(m)
	case methodListTools:
		s.list(m, "tools")
	case methodSetLevel:
		s.setLevel(m)
	default:
		if s.several() {
			s.toOneOf(m)
			return
		}
		s.forward(s.links[:1], m, nil)
	}
}

// likeCall reports whether a method is not tools/call, but a lenient server could take it for
// tools/call (G15): tool/call, callTool and notifications/tools/call, too.
func likeCall(method string) bool {
	letters := strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r)) // so that all letters that are equal by case folding become one
	}, method)
	return method != methodCallTool && strings.Contains(letters, "tool") && strings.Contains(letters, "call")
}

// toOneOf sends a request to one of several servers, by the name or address in it.
func (s *session) toOneOf(m message) {
	switch m.Method {
	case "prompts/list":
		s.list(m, "prompts")
	case "resources/list":
		s.list(m, "resources")
	case "resources/templates/list":
		s.list(m, "resourceTemplates")
	case "prompts/get":
		l, name := s.owner(memberText(m.Params, "name"))
		if l == nil {
			s.send(failed(m.ID, &fault{Code: jsonrpc.CodeInvalidParams, Message: "there is no such prompt"}))
			return
		}
		m.Params = replaced(m.Params, "name", quote(name))
		s.forward([]*link{l}, m, nil)
	case "completion/complete":
		s.complete(m)
	default:
		s.forward(s.byURI(memberText(m.Params, "uri")), m, missing)
	}
}

// complete sends a request for completions to the server of the prompt or resource.
func (s *session) complete(m message) {
	params, err := parseObject(m.Params)
	if err != nil {
		s.send(failed(m.ID, &fault{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}))
		return
	}
	ref := params.get("ref")
	if l, name := s.owner(memberText(ref, "name")); l != nil {
		m.Params = params.with("ref", replaced(ref, "name", quote(name))).text()
		s.forward([]*link{l}, m, nil)
		return
	}
	s.forward(s.byURI(memberText(ref, "uri")), m, missing)
}

// missing reports whether an answer says that the server does not have the requested thing.
func missing(m message) bool { return m.Error != nil || m.failure != nil }

// byURI returns the servers to ask for a resource: first the one that listed it.
func (s *session) byURI(uri string) []*link {
	s.mu.Lock()
	home := s.homes[uri]
	s.mu.Unlock()
	if home == nil {
		return s.links
	}
	all := []*link{home}
	for _, l := range s.links {
		if l != home {
			all = append(all, l)
		}
	}
	return all
}

// owner returns the server that a name belongs to, and the name on that server; nil if there
// is no such server.
func (s *session) owner(name string) (*link, string) {
	if !s.several() {
		return s.links[0], name
	}
	prefix, rest, ok := strings.Cut(name, separator)
	for _, l := range s.links {
		if ok && l.u.name == prefix {
			return l, rest
		}
	}
	return nil, ""
}

// outward returns a server's name for something as the agent sees it.
func (s *session) outward(l *link, name string) string {
	if !s.several() {
		return name
	}
	return l.u.name + separator + name
}

// memberText returns the text of an object's member, empty if there is none.
func memberText(object jsontext.Value, name string) string {
	var members map[string]jsontext.Value
	_ = json.Unmarshal(object, &members, lax()) // anything but an object has no members
	text, _ := textOf(members[name])
	return text
}

// route tells which server has a request of the agent's at the moment.
type route struct {
	mu       sync.Mutex
	link     *link
	id       string
	canceled bool
}

// forward passes a request to the first of the servers, and to the next one while missed
// reports true for the response.
func (s *session) forward(links []*link, m message, missed func(message) bool) {
	at := new(route)
	if !s.flyOn(at, m) {
		return
	}
	s.pass(at, links, m, func(answer message) bool {
		if missed != nil && missed(answer) && len(links) > 1 {
			return false
		}
		s.reply(answer)
		return true
	})
}

// pass sends a request to the first of the servers; when done does not take the
// response, it goes to the next. The last response is taken in any case.
func (s *session) pass(at *route, links []*link, m message, done func(message) bool) {
	l := links[0]
	send := func() {
		at.start(l, message{Method: m.Method, Params: m.Params, about: string(m.ID)}, func(answer message) {
			if answer.failure != nil {
				answer = failed(m.ID, failure(l.u, answer.failure))
			}
			answer = message{ID: m.ID, Result: answer.Result, Error: answer.Error}
			if !done(answer) {
				if len(links) > 1 {
					s.pass(at, links[1:], m, done)
					return
				}
				s.reply(answer)
			}
		})
	}
	l.mu.Lock()
	up := l.conn != nil
	l.mu.Unlock()
	if up {
		send()
		return
	}
	go func() {
		_ = l.wait(s.ctx) // without a connection the request fails
		send()
	}()
}

// start sends the request unless it was cancelled.
func (at *route) start(l *link, m message, answer func(message)) {
	at.mu.Lock()
	canceled := at.canceled
	at.mu.Unlock()
	if canceled {
		return
	}
	id := l.request(nil, m, answer)
	at.mu.Lock()
	at.link, at.id = l, id
	canceled = at.canceled // while it was being sent
	at.mu.Unlock()
	if canceled {
		at.cancel(nil)
	}
}

// cancel tells the server that has the request.
func (at *route) cancel(reason jsontext.Value) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.canceled = true
	if at.link == nil || at.id == "" {
		return
	}
	at.link.abandon(at.id)
	params := object{{"requestId", jsontext.Value(at.id)}}
	if reason != nil {
		params = append(params, member{"reason", reason})
	}
	at.link.notify(message{Method: noteCancelled, Params: params.text()})
}

// setLevel tells all servers how much to log.
func (s *session) setLevel(m message) {
	if !s.fly(m, func(jsontext.Value) {}) {
		return
	}
	var mu sync.Mutex
	left, best := len(s.links), message{}
	for _, l := range s.links {
		l.mu.Lock()
		l.level = m.Params
		l.mu.Unlock()
		l.request(nil, message{Method: m.Method, Params: m.Params, about: string(m.ID)}, func(answer message) {
			mu.Lock()
			defer mu.Unlock()
			if answer.failure != nil {
				answer.Error = encode(failure(l.u, answer.failure))
			}
			if best.Result == nil {
				best = message{ID: m.ID, Result: answer.Result, Error: answer.Error}
			}
			if left--; left == 0 {
				s.reply(best)
			}
		})
	}
}

// initialize connects to all servers with the agent's parameters, and answers with their
// merged capabilities.
func (s *session) initialize(m message) {
	s.mu.Lock()
	again := s.started
	s.started = true
	s.mu.Unlock()
	if again {
		s.send(failed(m.ID, &fault{Code: jsonrpc.CodeInvalidRequest, Message: "the session is initialized already"}))
		return
	}
	params := m.Params
	if memberText(params, "protocolVersion") > latestVersion {
		params = replaced(params, "protocolVersion", quote(latestVersion))
	}
	var attempts sync.WaitGroup
	for _, l := range s.links {
		attempts.Add(1)
		go l.run(params, attempts.Done)
	}
	go func() {
		attempts.Wait()
		result, err := s.greeting()
		if err != nil {
			s.send(failed(m.ID, err))
			s.agent.close()
			return
		}
		s.send(message{ID: m.ID, Result: result})
	}()
}

// greeting merges the results of the servers' initialize. The result of a single server is
// passed on as it is.
func (s *session) greeting() (jsontext.Value, error) {
	var results []object
	var down error
	version := ""
	for _, l := range s.links {
		l.mu.Lock()
		first := l.first
		l.mu.Unlock()
		if first.Result == nil {
			down = fmt.Errorf("the server %s cannot be started: %w", l.u.name, first.failure)
			continue
		}
		o, err := parseObject(first.Result)
		if err != nil {
			down = fmt.Errorf("the server %s: its answer to initialize %w", l.u.name, err)
			continue
		}
		results = append(results, o)
		if v := memberText(first.Result, "protocolVersion"); version == "" || v < version {
			version = v
		}
	}
	if len(results) == 0 {
		return nil, &fault{Code: codeUnavailable, Message: down.Error()}
	}
	if !s.several() {
		return results[0].text(), nil
	}
	capabilities, instructions := object{}, []string{}
	for _, o := range results {
		capabilities = merged(capabilities, o.get("capabilities"))
		if text, _ := textOf(o.get("instructions")); text != "" {
			instructions = append(instructions, text)
		}
	}
	// A server that comes later may have tools that the others lack.
	capabilities = merged(capabilities, jsontext.Value(`{"tools":{"listChanged":true}}`))
	greeting := object{
		{"protocolVersion", quote(version)},
		{"capabilities", capabilities.text()},
		{"serverInfo", encode(map[string]string{"name": "spendgate-gateway", "version": s.gw.version})},
	}
	if len(instructions) > 0 {
		greeting = append(greeting, member{"instructions", quote(strings.Join(instructions, "\n\n"))})
	}
	return greeting.text(), nil
}

// merged adds capabilities to others: a capability of any server is offered.
func merged(all object, text jsontext.Value) object {
	more, err := parseObject(text)
	if err != nil {
		return all
	}
	for _, m := range more {
		switch known := all.get(m.name); {
		case known.Kind() == '{' && m.value.Kind() == '{':
			inner, err := parseObject(known)
			if err == nil {
				all = all.with(m.name, merged(inner, m.value).text())
			}
		case known.Kind() != 't':
			all = all.with(m.name, m.value)
		}
	}
	return all
}

// restarted tells the agent that the lists of a server may have changed, since it was started again.
func (s *session) restarted(l *link) {
	l.mu.Lock()
	again := l.starts > 0
	l.starts++
	l.mu.Unlock()
	if !again {
		return
	}
	var result struct {
		Capabilities map[string]jsontext.Value `json:"capabilities"`
	}
	l.mu.Lock()
	_ = json.Unmarshal(l.first.Result, &result, lax()) // a server without capabilities has no lists
	l.mu.Unlock()
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if result.Capabilities[kind] != nil {
			s.send(message{Method: "notifications/" + kind + "/list_changed"})
		}
	}
}
