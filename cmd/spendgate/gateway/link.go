package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	firstBackoff = 200 * time.Millisecond
	mostBackoff  = 30 * time.Second
	steady       = time.Minute // a server that ran for so long is started again at once
	startTimeout = 30 * time.Second
	// patience is how long a request waits for a server that is being started again.
	patience = 10 * time.Second
)

// link is a session's connection to one server. When it breaks it is made again,
// with backoff and the same initialize.
type link struct {
	u       *upstream
	s       *session
	log     *slog.Logger
	dial    func(*upstream) (conn, error)
	stopped context.Context //nolint:containedctx // of the session

	mu      sync.Mutex
	conn    conn          // nil while there is none
	up      chan struct{} // closed while there is one
	next    int64
	pending map[string]waiting
	// cancelled are the oldest requests first that the agent cancelled: some of pending may never be answered.
	cancelled []string
	first     message   // the response to the first initialize, or the reason for its absence
	pins      pinned    // the tools as the server defined them; nil when not known
	pinned    time.Time // when the server was asked for pins
	changes   int       // how often the server said that its tools changed
	starts    int       // how often the server was started
	level     jsontext.Value
}

// waiting is a request that has no response yet.
type waiting struct {
	answer func(message)
	origin string // the request of the agent's that it was made for
}

func newLink(u *upstream, s *session) *link {
	return &link{
		u: u, s: s, log: s.gw.log.With("upstream", u.name), dial: s.gw.dial, stopped: s.ctx,
		up: make(chan struct{}), pending: make(map[string]waiting),
	}
}

// run keeps the link up until the session ends. initialize has the parameters that the
// agent gave; ready is called once, when the first attempt has ended.
func (l *link) run(initialize jsontext.Value, ready func()) {
	ready = sync.OnceFunc(ready)
	defer ready()
	for wait := firstBackoff; l.stopped.Err() == nil; {
		started := time.Now()
		c, err := l.connect(initialize)
		if err != nil {
			l.log.Warn("upstream cannot be reached", "error", err, "retry_in", wait)
			l.s.gw.metrics.ends.WithLabelValues(l.u.name).Inc()
			l.mu.Lock()
			l.first.failure = err
			l.mu.Unlock()
			ready()
		} else {
			l.serve(c, ready)
			if l.stopped.Err() != nil {
				return
			}
			l.log.Warn("upstream ended", "retry_in", wait)
			l.s.gw.metrics.ends.WithLabelValues(l.u.name).Inc()
		}
		if time.Since(started) > steady {
			wait = firstBackoff
		}
		select {
		case <-time.After(wait):
		case <-l.stopped.Done():
		}
		wait = min(2*wait, mostBackoff)
	}
}

// connect starts or reaches the server and agrees on the protocol with it.
func (l *link) connect(initialize jsontext.Value) (conn, error) {
	c, err := l.dial(l.u)
	if err != nil {
		return nil, err
	}
	if err := l.greet(c, initialize); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// greet sends initialize and waits for its result. Messages that come before are not passed
// to the agent.
func (l *link) greet(c conn, initialize jsontext.Value) error {
	expired := time.AfterFunc(startTimeout, c.close)
	defer expired.Stop()
	defer context.AfterFunc(l.stopped, c.close)()
	id := jsontext.Value(`"initialize"`)
	if err := c.write(message{ID: id, Method: methodInitialize, Params: initialize}); err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	for {
		m, err := c.read()
		switch {
		case err != nil:
			return fmt.Errorf("%w: it did not answer initialize: %w", errNotSent, err)
		case !m.isResponse() || m.hasID() && string(m.ID) != string(id):
			continue
		case m.failure != nil:
			return m.failure
		case m.Error != nil:
			return m.errorOf()
		}
		var result struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		if err := json.Unmarshal(m.Result, &result, lax()); err != nil || result.ProtocolVersion == "" {
			return errors.New("its answer to initialize names no version of the protocol")
		}
		if r, ok := c.(*remote); ok {
			r.setVersion(result.ProtocolVersion)
		}
		l.mu.Lock()
		l.first = message{Result: m.Result}
		l.mu.Unlock()
		return nil
	}
}

// serve reads from a connection until it ends. ready is called once the connection
// takes messages.
func (l *link) serve(c conn, ready func()) {
	defer context.AfterFunc(l.stopped, c.close)()
	expired := time.AfterFunc(startTimeout, c.close)
	err := c.write(message{Method: noteInitialized})
	if !expired.Stop() && err == nil {
		err = errLost
	}
	if err != nil {
		ready()
		c.close()
		return
	}
	l.mu.Lock()
	l.conn, l.pins = c, nil
	level := l.level
	close(l.up)
	l.mu.Unlock()
	ready()
	if level != nil {
		l.request(nil, message{Method: methodSetLevel, Params: level}, func(message) {})
	}
	l.s.restarted(l)
	for {
		m, err := c.read()
		if err != nil {
			break
		}
		l.receive(m)
	}
	c.close()
	l.mu.Lock()
	l.conn = nil
	l.up = make(chan struct{})
	lost := l.pending
	l.pending = make(map[string]waiting)
	l.mu.Unlock()
	for _, request := range lost {
		request.answer(message{failure: errLost})
	}
	l.s.forget(l)
}

// receive handles a message of the server.
func (l *link) receive(m message) {
	if !m.isResponse() {
		if m.Method == noteToolsChanged {
			l.forgetTools()
		}
		l.s.fromServer(l, m)
		return
	}
	l.mu.Lock()
	request, waits := l.pending[string(m.ID)]
	delete(l.pending, string(m.ID))
	l.mu.Unlock()
	if waits {
		request.answer(m)
	}
}

// request sends a request and returns its identifier on this link. The request is sent only over
// the connection over, or over the present connection if over is nil. answer is called once, with
// the response or with the reason why there is none.
func (l *link) request(over conn, m message, answer func(message)) (id string) {
	l.mu.Lock()
	c := l.conn
	if c == nil || over != nil && over != c {
		l.mu.Unlock()
		failure := errNotSent
		if c != nil {
			failure = errMoved
		}
		answer(message{failure: failure})
		return ""
	}
	l.next++
	id = strconv.FormatInt(l.next, 10)
	m.ID = jsontext.Value(id)
	l.pending[id] = waiting{answer, m.about}
	l.mu.Unlock()
	if err := c.write(m); err != nil && l.take(id) {
		c.close()
		answer(message{failure: fmt.Errorf("%w: %w", errLost, err)})
	}
	return id
}

// requester returns the agent's request for which a request of this link was made.
func (l *link) requester(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending[id].origin
}

// take removes a request that waits for its answer, and reports whether there was one.
func (l *link) take(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waits := l.pending[id]
	delete(l.pending, id)
	return waits
}

// abandon keeps a cancelled request for an answer that comes all the same, but not too many of these.
func (l *link) abandon(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancelled = append(l.cancelled, id); len(l.cancelled) > maxRequestsFlight {
		delete(l.pending, l.cancelled[0])
		l.cancelled = l.cancelled[1:]
	}
}

// notify sends a notification or a response, if there is a connection.
func (l *link) notify(m message) {
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c == nil {
		return
	}
	if err := c.write(m); err != nil {
		l.log.Warn("a message was not sent", "method", m.Method, "error", err)
	}
}

// wait waits until there is a connection. It fails if there is none for the time patience.
func (l *link) wait(ctx context.Context) error {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.stopped.Done():
		return errNotSent
	case <-timer.C:
		return errNotSent
	}
}

// call sends a request, as request does, and waits for its response. When the context ends,
// it takes the request back and fails with errNotSent. If the request was sent already, it
// cancels the request and waits for a response for at most grace.
func (l *link) call(ctx context.Context, over conn, m message, grace time.Duration) (message, error) {
	answered := make(chan message, 1)
	id := l.request(over, m, func(m message) { answered <- m })
	result := func(m message) (message, error) { return m, m.failure }
	select {
	case m := <-answered:
		return result(m)
	case <-ctx.Done():
	}
	m.ID = jsontext.Value(id)
	if l.unsent(m) { // nothing was sent, whatever error the connection reported meanwhile
		l.take(id)
		return message{}, errNotSent
	}
	l.notify(message{Method: noteCancelled, Params: encode(map[string]any{
		"requestId": jsontext.Value(id), "reason": context.Cause(ctx).Error(),
	})})
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case m := <-answered:
		return result(m)
	case <-timer.C:
		l.take(id)
		return message{}, ctx.Err()
	}
}

// unsent takes back a request of which nothing was sent yet, and reports whether it did.
func (l *link) unsent(m message) bool {
	l.mu.Lock()
	c, ok := l.conn.(interface{ unsend(m message) bool })
	l.mu.Unlock()
	return ok && c.unsend(m)
}

// forgetTools makes the next call ask for the server's tools again.
func (l *link) forgetTools() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins = nil
	l.changes++
}
