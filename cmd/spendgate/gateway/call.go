package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	onErrorInDoubt = "in_doubt"
	onErrorFailed  = "failed"
)

// callTool handles a call of a tool. For a mapped tool the service is asked; a call of another
// tool is passed on if the file allows that.
func (s *session) callTool(m message) {
	invalid := func(text string) {
		s.send(failed(m.ID, &fault{Code: jsonrpc.CodeInvalidParams, Message: text}))
	}
	params, err := parseObject(m.Params)
	if err != nil {
		invalid("params " + err.Error())
		return
	}
	name, ok := textOf(params.get("name"))
	l, own := s.owner(name)
	if !ok || l == nil {
		invalid(fmt.Sprintf("there is no tool %q", name))
		return
	}
	if l.u.Tools[own] != nil {
		s.callMapped(m, l, own, params)
		return
	}
	if s.several() {
		m.Params = params.with("name", quote(own)).text()
	}
	at := new(route)
	if !s.flyOn(at, m) {
		return
	}
	go func() {
		if err := s.mayPass(l, own); err != nil {
			s.reply(message{ID: m.ID, Result: refusedTool(err).encode()})
			return
		}
		s.pass(at, []*link{l}, m, func(answer message) bool { s.reply(answer); return true })
	}()
}

// mayPass returns why a tool that is not mapped is off.
func (s *session) mayPass(l *link, name string) error {
	if s.gw.file.Shadow && s.gw.locked.now() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, checkTimeout)
	defer cancel()
	_, _, err := s.gw.tool(ctx, l, name, fresh)
	if err != nil && s.gw.file.Shadow {
		s.log.Warn("a shadow passes what would be refused", "upstream", l.u.name, "tool", name, "reason", err)
		return nil
	}
	return err
}

// refusedTool returns the result of a call of a tool that is off.
func refusedTool(err error) result {
	return result{state: stateRefused, isError: true, text: "Refused: " + err.Error() + "."}
}

// checkNames fails if parameters have a member that the protocol does not have: a server could
// take it for the name or the arguments of the call.
func checkNames(params object) error {
	for _, m := range params {
		switch {
		case m.name == "name" || m.name == "arguments" || m.name == "_meta":
		case strings.EqualFold(m.name, "task"):
			return errors.New("a call that moves money cannot be a task")
		default:
			return fmt.Errorf("params have the unknown member %q", m.name)
		}
	}
	return nil
}
