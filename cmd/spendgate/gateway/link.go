package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	legacyVersion    = "2025-11-25" // the newest version of the protocol that has sessions
	latestVersion    = "2026-07-28"
	firstBackoff     = 200 * time.Millisecond
	mostBackoff      = 10 * time.Second
	startTimeout     = 20 * time.Second // of each era
	maxServerMessage = 64 << 20         // ten thousand tools, or an image
	codeUnavailable  = -32000
	codeLost         = -32001 // and the server may have forgotten the session
)

var errNotSent = errors.New("the server cannot be reached")

// link is a connection to a server. It is made when it is needed first, and again when it broke.
type link struct {
	u      *upstream
	log    *slog.Logger
	failed func() // counts
	client *mcp.Client
	dial   func(*link) mcp.Transport
	old    bool // try the era with sessions first, as the agent's is
	// arrived is told of the server's messages, in their order.
	arrived func(jsonrpc.Message)

	mu      sync.Mutex
	now     *connection // made, or being made; nil if there is none
	backoff time.Duration
	closed  bool

	tools   pinned             // as the server defined them
	over    *mcp.ClientSession // over which; nil when they are not known
	asked   time.Time
	changes atomic.Int32 // how often the server said that its tools changed
}

// connection is one that was made, or could not be made, once made is closed.
type connection struct {
	made  chan struct{}
	cs    *mcp.ClientSession
	err   error
	began time.Time
}

// dialer returns how the server is started or reached.
func (l *link) dialer(environ []string) mcp.Transport {
	if l.u.URL == "" {
		return &child{l, environ}
	}
	return newRemote(l)
}

// session returns the connection, and makes one if there is none.
func (l *link) session(ctx context.Context) (*mcp.ClientSession, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errNotSent
	}
	if l.now == nil {
		l.now = &connection{made: make(chan struct{})}
		go l.make(l.now)
	}
	now := l.now
	l.mu.Unlock()
	select {
	case <-now.made:
		return now.cs, now.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w in time", errNotSent)
	}
}

// make makes a connection, after a pause if the last one did not last.
func (l *link) make(c *connection) {
	l.mu.Lock()
	wait := l.backoff
	l.backoff = min(max(2*wait, firstBackoff), mostBackoff)
	l.mu.Unlock()
	time.Sleep(wait)
	cs, err := l.connect()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(c.made)
	if err == nil && l.closed {
		go cs.Close() //nolint:errcheck // nobody needs it any more
		err = errNotSent
	}
	if err != nil {
		l.log.Warn("upstream cannot be reached", "error", err, "retry_in", l.backoff)
		l.failed()
		c.err, l.now = fmt.Errorf("%w: %w", errNotSent, err), nil
		return
	}
	c.cs, c.began = cs, time.Now()
	go func() { l.leave(cs, cs.Wait()) }()
}

// leave has the next request use another connection.
func (l *link) leave(cs *mcp.ClientSession, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil || l.now.cs != cs {
		return
	}
	go cs.Close() //nolint:errcheck // it may have ended before; otherwise it ends when its calls have
	if time.Since(l.now.began) > time.Minute {
		l.backoff = 0
	}
	if l.now = nil; !l.closed {
		l.log.Warn("upstream ended", "error", why)
		l.failed()
	}
}

// connect agrees on the protocol with the server, in either era.
func (l *link) connect() (*mcp.ClientSession, error) {
	versions := []string{latestVersion, legacyVersion}
	if l.old {
		slices.Reverse(versions)
	}
	failed := errors.New("it speaks none of the versions of the protocol")
	for _, version := range versions {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		cs, err := l.client.Connect(ctx, l.dial(l), &mcp.ClientSessionOptions{ProtocolVersion: version})
		timedOut := ctx.Err() != nil
		if cancel(); err == nil {
			return cs, nil
		}
		if unreached := (*net.OpError)(nil); errors.As(err, &unreached) && unreached.Op == "dial" {
			return nil, errors.New(unreached.Error()) // nobody was asked which versions it speaks
		}
		failed = fmt.Errorf("%w: %s: %s", failed, version, err.Error())          // an error of the server is not that of the agent's request
		if errors.Is(err, errNotSent) || version == latestVersion && !timedOut { // the client has tried the other era itself
			break
		}
	}
	return nil, failed
}

// close ends the connection for good.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.now != nil && l.now.cs != nil {
		go l.now.cs.Close() //nolint:errcheck // it may have ended before
	}
}

// forgetTools makes the next call ask for the server's tools again.
func (l *link) forgetTools() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = nil
	l.changes.Add(1)
}

// definitions returns the server's tools as it defined them at most age ago, and the connection over
// which they came. Servers need not report changes, so calls that move money ask each time.
func (l *link) definitions(ctx context.Context, age time.Duration) (pinned, *mcp.ClientSession, error) {
	for again := false; ; again = true {
		cs, err := l.session(ctx)
		if err != nil {
			return nil, nil, err
		}
		l.mu.Lock()
		known, fresh, changes := l.tools, l.over == cs && time.Since(l.asked) < age, l.changes.Load()
		l.mu.Unlock()
		if fresh {
			return known, cs, nil
		}
		asked := time.Now()
		tools, err := listTools(ctx, cs)
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.changes.Load() == changes {
				l.tools, l.over, l.asked = tools, cs, asked
			}
			return tools, cs, nil
		}
		if again || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

// fault returns the error of JSON-RPC for a request that a server did not answer with a result: the server's own error,
// or that it cannot be reached.
func (l *link) fault(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return own
	}
	return &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("the server %s did not answer: %v", l.u.name, err)}
}

// scope says who may keep a result, where the server did not: the era without sessions requires it, the other one does not have it.
func scope(result mcp.Result) {
	if c := reflect.ValueOf(result).Elem().FieldByName("CacheScope"); c.IsValid() && c.String() == "" {
		c.SetString("private")
	}
}

// survive turns a panic into an error: null in certain places is one, in the SDK or by a handler.
func survive(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("a message cannot be read: %v", fault)
	}
}

// send is middleware of the client. A server must not say for how long its tools need not be compared.
func (l *link) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer survive(&err)
		result, err = next(ctx, method, r)
		switch r := result.(type) {
		case *mcp.ListToolsResult:
			r.Cacheable = mcp.Cacheable{}
		case *mcp.CallToolResult:
			unquoted(r)
		}
		if own, ok := errors.AsType[*jsonrpc.Error](err); ok && own.Code == codeLost {
			cs, _ := r.GetSession().(*mcp.ClientSession)
			l.leave(cs, err)
		}
		return result, err
	}
}
