package gateway

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// listing collects a page of a list from one or several servers.
type listing struct {
	s       *session
	request message
	kind    string // the member that has the list
	route   *route
	items   []jsontext.Value
	rest    object // the other members of the last page
}

// list answers a request for a list. The lists of several servers follow each other: a
// cursor has the number of a server and that server's own cursor.
func (s *session) list(m message, kind string) {
	at := new(route)
	if !s.flyOn(at, m) {
		return
	}
	l := &listing{s: s, request: m, kind: kind, route: at}
	index, cursor := 0, memberText(m.Params, "cursor")
	if s.several() && cursor != "" {
		number, rest, _ := strings.Cut(cursor, ".")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n >= len(s.links) {
			s.reply(failed(m.ID, &fault{Code: -32602, Message: "there is no such cursor"}))
			return
		}
		index, cursor = n, rest
	}
	l.page(index, cursor)
}

// page asks a server for a page.
func (l *listing) page(index int, cursor string) {
	m := l.request
	params, err := parseObject(m.Params)
	if err != nil {
		l.s.reply(failed(m.ID, &fault{Code: -32602, Message: "params " + err.Error()}))
		return
	}
	if params = params.without("cursor"); cursor != "" {
		params = params.with("cursor", quote(cursor))
	}
	if m.Params != nil || cursor != "" {
		m.Params = params.text()
	}
	l.s.pass(l.route, l.s.links[index:index+1], m, func(answer message) bool {
		l.take(index, answer)
		return true
	})
}

// take adds a server's page, and asks the next server if it was the last one.
func (l *listing) take(index int, answer message) {
	last := index+1 == len(l.s.links)
	next := ""
	if answer.Error == nil {
		page, err := parseObject(answer.Result)
		var items []jsontext.Value
		if err == nil {
			err = json.Unmarshal(page.get(l.kind), &items, lax())
		}
		if err != nil {
			answer = failed(l.request.ID, &fault{Code: codeUnavailable, Message: "the server's list cannot be understood"})
		} else {
			next, _ = textOf(page.get("nextCursor"))
			l.rest = page.without("nextCursor", l.kind)
			l.add(l.s.links[index], items)
		}
	}
	switch {
	case answer.Error != nil && !l.s.several():
		l.s.reply(answer)
	case next != "" && l.s.several():
		l.finish(strconv.Itoa(index) + "." + next)
	case next != "" || last:
		l.finish(next)
	default: // the list of a server that fails, or has no such list, is empty
		l.page(index+1, "")
	}
}

func (l *listing) finish(cursor string) {
	if l.items == nil {
		l.items = []jsontext.Value{}
	}
	result := l.rest.with(l.kind, encode(l.items))
	if cursor != "" {
		result = result.with("nextCursor", quote(cursor))
	}
	l.s.reply(message{ID: l.request.ID, Result: result.text()})
}

// add adds what a server listed, as the agent may see it.
func (l *listing) add(from *link, items []jsontext.Value) {
	pins := l.s.gw.locked.now()
	for _, item := range items {
		switch l.kind {
		case "tools":
			if item = l.s.offered(pins, from, item); item == nil {
				continue
			}
		case "prompts":
			item = replaced(item, "name", quote(l.s.outward(from, memberText(item, "name"))))
		case "resources":
			l.s.noteHome(memberText(item, "uri"), from)
		}
		l.items = append(l.items, item)
	}
}

// noteHome remembers which server listed a resource first.
func (s *session) noteHome(uri string, l *link) {
	const most = 100_000
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.homes[uri]; !known && len(s.homes) < most {
		s.homes[uri] = l
	}
}

// offered returns a server's tool as the agent sees it, nil if it is off by a lock.
func (s *session) offered(pins *lock, l *link, text jsontext.Value) jsontext.Value {
	name, d, err := define(text)
	if name == "" {
		return nil
	}
	if err == nil {
		err = s.gw.permitted(pins, l.u, name, d)
	}
	if err != nil {
		s.log.Debug("a tool is not offered", "upstream", l.u.name, "tool", name, "reason", err)
		if !s.gw.file.Shadow {
			return nil
		}
	}
	if t := l.u.Tools[name]; t != nil {
		text = t.shown(text)
	}
	if s.several() {
		text = replaced(text, "name", quote(s.outward(l, name)))
	}
	return text
}

// shown returns the definition of a mapped tool as the model sees it: without the argument
// that the gateway fills, and without outputSchema, since a refusal does not conform to it.
func (t *tool) shown(text jsontext.Value) jsontext.Value {
	o, err := parseObject(text)
	if err != nil {
		return nil
	}
	o = o.without("outputSchema", "execution")
	if t.IdempotencyArgument == "" {
		return o.text()
	}
	return o.with("inputSchema", hide(o.get("inputSchema"), t.IdempotencyArgument)).text()
}
