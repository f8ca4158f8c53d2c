package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"spendgate/config"
)

const (
	// Path is where Streamable HTTP is served.
	Path        = "/mcp"
	maxSessions = 256
	// reserved is the number of sessions that are kept for agents with a token that have fewer
	// sessions than this: the other agents must not keep them out.
	reserved    = maxSessions / 4
	idleSession = 30 * time.Minute
	leastIdle   = time.Minute // of a session that ends so that another one fits
	heartbeat   = 15 * time.Second
	bodyTimeout = 30 * time.Second
)

// Server serves agents over Streamable HTTP, each session with connections of its own
// to the servers.
type Server struct {
	gw *Gateway

	mu       sync.Mutex
	sessions map[string]*remoteAgent
	running  sync.WaitGroup
}

// NewServer makes a Server.
func NewServer(g *Gateway) *Server { return &Server{gw: g, sessions: make(map[string]*remoteAgent)} }

// Handler serves Path to agents that are known, and refuses pages of other origins.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		name, ok := s.agentOf(r)
		switch {
		case foreign(r):
			http.Error(w, "requests of other hosts and origins are refused", http.StatusForbidden)
		case !ok:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "missing or wrong token; send Authorization: Bearer", http.StatusUnauthorized)
		default:
			s.serve(w, r, name)
		}
	})
	return mux
}

// Stop ends all sessions, once their mapped calls are finished or the time is over.
func (s *Server) Stop() {
	s.gw.stop()
	s.mu.Lock()
	for _, a := range s.sessions {
		a.hangUp()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(stopTimeout):
	}
}

// agentOf returns the agent of a request, by its token, and whether the request may be served.
func (s *Server) agentOf(r *http.Request) (string, bool) {
	file := s.gw.file
	if len(file.Agents) == 0 {
		if file.AgentID.header != "" {
			values := r.Header.Values(file.AgentID.header)
			if len(values) != 1 { // with several it is unknown which one is meant
				return "", true
			}
			return strings.TrimSpace(values[0]), true
		}
		return file.AgentID.fixed, true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	got, found := sha256.Sum256([]byte(strings.TrimSpace(token))), ""
	for name, a := range file.Agents {
		want := sha256.Sum256([]byte(a.token))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			found = name
		}
	}
	return found, found != ""
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

func (s *Server) serve(w http.ResponseWriter, r *http.Request, agent string) {
	var a *remoteAgent
	if id := r.Header.Get(headerSession); id != "" {
		s.mu.Lock()
		a = s.sessions[id]
		s.mu.Unlock()
		if a == nil || len(s.gw.file.Agents) > 0 && a.owner != agent {
			http.Error(w, "there is no such session", http.StatusNotFound)
			return
		}
		if version := r.Header.Get(headerVersion); version != "" && !spoken(version) {
			text := fmt.Sprintf("%s %q is not supported; the newest one is %s", headerVersion, version, latestVersion)
			http.Error(w, text, http.StatusBadRequest)
			return
		}
		a.touch()
	}
	switch {
	case r.Method == http.MethodPost:
		s.post(w, r, a, agent)
	case r.Method == http.MethodGet && a != nil:
		a.listen(w, r)
	case r.Method == http.MethodDelete && a != nil:
		a.hangUp()
		w.WriteHeader(http.StatusNoContent)
	case a == nil && (r.Method == http.MethodGet || r.Method == http.MethodDelete):
		http.Error(w, headerSession+" is required", http.StatusBadRequest)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "use GET, POST or DELETE", http.StatusMethodNotAllowed)
	}
}

// post takes a message, and answers a request when its response is there.
func (s *Server) post(w http.ResponseWriter, r *http.Request, a *remoteAgent, agent string) {
	in := http.NewResponseController(w)
	_ = in.SetReadDeadline(time.Now().Add(bodyTimeout)) // without deadlines it is read all the same
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAgentMessage))
	_ = in.SetReadDeadline(time.Time{})
	if err != nil {
		http.Error(w, fmt.Sprintf("a message has at most %d bytes", maxAgentMessage), http.StatusRequestEntityTooLarge)
		return
	}
	m, err := decodeMessage(text)
	if err != nil {
		refuse(w, http.StatusBadRequest, unread(err))
		return
	}
	m.agent = agent
	if a == nil {
		if m.Method != methodInitialize || !m.hasID() {
			// Newer clients first send another request, and then work without it.
			refuse(w, http.StatusBadRequest, failed(m.ID, &fault{Code: jsonrpc.CodeMethodNotFound, Message: "initialize comes first"}))
			return
		}
		var full string
		if a, full = s.open(agent); full != "" {
			http.Error(w, full, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set(headerSession, a.id)
	}
	if !m.isCall() {
		if !a.receive(r.Context(), m) {
			http.Error(w, "the session is over", http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	a.exchange(w, r, m)
}

func refuse(w http.ResponseWriter, status int, m message) {
	text, err := encodeMessage(m)
	if err != nil {
		http.Error(w, "", status)
		return
	}
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(text) // whoever asked may be gone
}

// open begins a session. If there cannot be another one, full says why.
func (s *Server) open(agent string) (a *remoteAgent, full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full = s.full(agent); full != "" && s.endUnused(agent) {
		full = s.full(agent)
	}
	if full != "" {
		return nil, full
	}
	a = &remoteAgent{id: rand.Text(), owner: agent, in: make(chan message), used: time.Now(), streams: make(map[string]*stream)}
	a.ended, a.end = context.WithCancel(context.Background())
	a.idle = time.AfterFunc(idleSession, a.end)
	s.sessions[a.id] = a
	s.running.Go(func() {
		newSession(s.gw, a).run()
		a.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, a.id)
	})
	return a, ""
}

// endUnused ends the agent's session that was not used for the longest time, if that is long enough, and reports whether
// it did: not all agents say when they go. Another agent's session ends only where none is free for anybody. The mutex
// is held.
func (s *Server) endUnused(agent string) bool {
	longest := s.unused(func(owner string) bool { return owner == agent })
	if longest == nil && len(s.sessions) >= maxSessions {
		longest = s.unused(func(string) bool { return true })
	}
	if longest == nil {
		return false
	}
	longest.hangUp()
	delete(s.sessions, longest.id)
	return true
}

// unused returns the session, of certain owners, that was not used for the longest time; nil if there is none, or the
// time is short. The mutex is held.
func (s *Server) unused(of func(owner string) bool) (longest *remoteAgent) {
	least := time.Now().Add(-leastIdle)
	for _, a := range s.sessions {
		if since, so := a.unused(); so && since.Before(least) && of(a.owner) {
			longest, least = a, since
		}
	}
	return longest
}

// full returns why there cannot be another session of an agent, empty if there can. The mutex is held.
func (s *Server) full(agent string) string {
	own := 0
	for _, a := range s.sessions {
		if a.owner == agent && len(s.gw.file.Agents) > 0 {
			own++
		}
	}
	switch {
	case s.gw.stopping.Err() != nil:
		return "the gateway is being stopped"
	case len(s.sessions) >= maxSessions:
		return fmt.Sprintf("too many sessions: %d of all agents", maxSessions)
	case own >= reserved && maxSessions-len(s.sessions) <= reserved:
		return fmt.Sprintf("too many sessions: %d of this agent, and the last %d are for agents with fewer than %d", own, reserved, reserved)
	default:
		return ""
	}
}
