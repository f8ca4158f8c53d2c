package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"spendgate/config"
)

const (
	// Path is where Streamable HTTP is served: of the only upstream, or of each under its name.
	Path            = "/mcp"
	headerSession   = "Mcp-Session-Id"
	headerVersion   = "Mcp-Protocol-Version"
	maxSessions     = 4096
	maxOfAgent      = 64 // sessions
	maxRequests     = 64 // of an agent, without an answer
	idleSession     = time.Hour
	leastIdle       = time.Minute // of a session that ends so that another one fits
	maxAgentMessage = 4 << 20
	stopPoll        = 10 * time.Millisecond
)

// Server serves agents over Streamable HTTP, in both eras of the protocol.
type Server struct {
	gw     *Gateway
	shared map[string]*session // by upstream, for agents without sessions

	posts atomic.Int64 // requests without a complete answer

	mu       sync.Mutex
	sessions map[*session]string // the agents of the others
}

// NewServer makes a Server.
func NewServer(g *Gateway) *Server {
	s := &Server{gw: g, shared: make(map[string]*session), sessions: make(map[*session]string)}
	for name, u := range g.File.Upstreams {
		s.shared[name] = newSession(g, u)
	}
	return s
}

// Handler serves the paths to agents that are known, and refuses pages of other origins.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	known := func(h http.Handler) http.Handler { return h }
	if s.gw.tokens != nil {
		about, address := metadata(s.gw.File.Issuers)
		if about != nil { // clients read it to find out where to sign in
			mux.Handle(wellKnown, about)
			mux.Handle(wellKnown+"/", about)
		}
		known = auth.RequireBearerToken(s.gw.tokens.verify, &auth.RequireBearerTokenOptions{
			AllowMissingExpiration: true, ResourceMetadataURL: address,
		})
	}
	for _, name := range s.gw.File.order {
		h := known(s.upstream(name))
		mux.Handle(Path+"/"+name, h)
		if !s.gw.File.Several() {
			mux.Handle(Path, h)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if foreign(r) {
			http.Error(w, "requests of other hosts and origins are refused", http.StatusForbidden)
			return
		}
		if s.gw.tokens != nil {
			w = challenged{w}
		}
		mux.ServeHTTP(w, r)
	})
}

const wellKnown = "/.well-known/oauth-protected-resource"

// metadata serves where agents sign in (RFC 9728), and returns its address; nothing if no issuer signs tokens.
func metadata(issuers []issuer) (http.Handler, string) {
	if len(issuers) == 0 {
		return nil, ""
	}
	about := &oauthex.ProtectedResourceMetadata{Resource: issuers[0].Audience, BearerMethodsSupported: []string{"header"}}
	for _, i := range issuers {
		about.AuthorizationServers = append(about.AuthorizationServers, i.URL)
	}
	u, _ := url.Parse(issuers[0].Audience) // the file has been checked
	return auth.ProtectedResourceMetadataHandler(about), u.ResolveReference(&url.URL{Path: wellKnown}).String()
}

// challenged is the response to an agent that is not known.
type challenged struct{ http.ResponseWriter }

// Unwrap returns what http.ResponseController controls.
func (w challenged) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader adds to a 401 how to authenticate. The SDK says 500 where it is not known whose the token is.
func (w challenged) WriteHeader(status int) {
	switch {
	case status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "":
		w.Header().Set("WWW-Authenticate", "Bearer")
	case status == http.StatusInternalServerError:
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	}
	w.ResponseWriter.WriteHeader(status)
}

type sessionKey struct{}

// upstream serves an upstream: a request says by its header of which era it is.
func (s *Server) upstream(name string) http.Handler {
	options := mcp.StreamableHTTPOptions{MaxRequestBodyBytes: maxAgentMessage, DisableLocalhostProtection: true, SessionTimeout: idleSession}
	stateful := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if own, ok := r.Context().Value(sessionKey{}).(*session); ok {
			return own.server
		}
		return s.shared[name].server // only its versions are asked for
	}, &options)
	options.Stateless, options.SessionTimeout, options.PropagateRequestCancellation = true, 0, true
	stateless := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.shared[name].server }, &options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.posts.Add(1)
			defer s.posts.Add(-1)
		}
		switch {
		case r.Header.Get(headerVersion) >= latestVersion:
			stateless.ServeHTTP(w, r)
		case r.Method != http.MethodPost || r.Header.Get(headerSession) != "":
			stateful.ServeHTTP(w, r)
		default:
			extra := &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
			own, full := s.open(s.gw.agentOf(extra), name)
			if full != "" {
				http.Error(w, full, http.StatusServiceUnavailable)
				return
			}
			stateful.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, own)))
			s.watch(own)
		}
	})
}

// open makes room for a session of an agent. If there is none, full says why.
func (s *Server) open(agent, upstream string) (own *session, full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gw.stopping.Err() != nil {
		return nil, "the gateway is being stopped"
	}
	agent, most := s.gw.bound(agent, maxOfAgent)
	count := 0
	var idle *session
	for other, of := range s.sessions {
		if of != agent {
			continue
		}
		count++
		if since := other.lastUsed(); time.Since(since) > leastIdle && (idle == nil || since.Before(idle.lastUsed())) {
			idle = other
		}
	}
	const tooMany = "too many sessions: %d of %s; clients of version " + latestVersion + " need none"
	switch {
	case count >= most && idle != nil: // not all agents say when they go
		delete(s.sessions, idle)
		go idle.close()
	case count >= most:
		return nil, fmt.Sprintf(tooMany, count, "this agent")
	case len(s.sessions) >= maxSessions:
		return nil, fmt.Sprintf(tooMany, maxSessions, "all agents")
	}
	own = newSession(s.gw, s.gw.File.Upstreams[upstream])
	s.sessions[own] = agent
	s.gw.metrics.sessions.Inc()
	return own, ""
}

// watch waits in the background until a session has ended. One that the agent did not begin has.
func (s *Server) watch(own *session) {
	own.mu.Lock()
	agent := own.agent
	own.mu.Unlock()
	go func() {
		if agent != nil {
			_ = agent.Wait()
		}
		own.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, own)
		s.gw.metrics.sessions.Dec()
	}()
}

// lastUsed returns when the agent asked for something last, or has been answered: now while a request has no answer.
func (s *session) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking > 0 {
		return time.Now()
	}
	return s.used
}

// Stop ends all sessions, once their mapped calls are finished and answered, or the time is over.
func (s *Server) Stop() {
	if err := s.gw.finish(); err != nil {
		s.gw.Logger.Warn("stopping", "error", err)
	}
	for end := time.Now().Add(hurry); s.posts.Load() > 0 && time.Now().Before(end); {
		time.Sleep(stopPoll)
	}
	var ending sync.WaitGroup
	for _, own := range s.shared {
		ending.Go(own.close)
	}
	s.mu.Lock()
	for own := range s.sessions {
		ending.Go(own.close)
	}
	s.mu.Unlock()
	ends(ending.Wait, time.After(hurry))
}

// foreign reports whether a request comes from a page of another origin, or was sent to this
// machine under a foreign host name (DNS rebinding).
func foreign(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := local.(*net.TCPAddr); ok && tcp.IP.IsLoopback() && !config.IsLoopback(host) {
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		site := r.Header.Get("Sec-Fetch-Site")
		return site != "" && site != "same-origin" && site != "none"
	}
	u, err := url.Parse(origin)
	// The owner of a name can make it lead here; with an address nobody can do that.
	named := net.ParseIP(host) == nil && !config.IsLoopback(host)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) || named
}
