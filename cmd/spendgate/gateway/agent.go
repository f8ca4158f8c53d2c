package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// remoteAgent is the conn of an agent over Streamable HTTP. Messages that the agent posts
// are read; a message that is written goes to the stream of the request that it belongs to,
// or else to the stream of the GET.
type remoteAgent struct {
	id    string
	owner string // the agent that opened the session
	in    chan message
	ended context.Context //nolint:containedctx // the agent hung up, or was idle
	end   context.CancelFunc
	idle  *time.Timer

	mu       sync.Mutex
	used     time.Time          // when the agent sent something last, or was listening
	streams  map[string]*stream // of requests, by their identifiers
	general  *stream            // of the GET
	kept     []message          // for when there is a stream
	keptSize int
	over     bool
}

// stream is an HTTP response that is being written.
type stream struct {
	out  chan message
	gone chan struct{} // closed when nobody reads it any more
}

const (
	maxKept     = 1000
	maxKeptSize = 4 << 20
	maxStream   = 64
)

var errNoStream = errors.New("the agent listens to no stream")

func (a *remoteAgent) read() (message, error) {
	select {
	case m := <-a.in:
		return m, nil
	case <-a.ended.Done():
		return message{}, io.EOF
	}
}

// receive hands over a message that was posted.
func (a *remoteAgent) receive(ctx context.Context, m message) bool {
	select {
	case a.in <- m:
		return true
	case <-a.ended.Done():
		return false
	case <-ctx.Done():
		return false
	}
}

func (a *remoteAgent) hangUp() { a.end() }

// touch keeps an idle session alive.
func (a *remoteAgent) touch() {
	a.idle.Reset(idleSession)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = time.Now()
}

// unused returns since when the agent has neither sent nor awaited anything, and whether that is so.
func (a *remoteAgent) unused() (since time.Time, so bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used, a.general == nil && len(a.streams) == 0
}

// close ends the streams; messages that are written afterwards are lost.
func (a *remoteAgent) close() {
	a.end()
	a.idle.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

func (a *remoteAgent) write(m message) error {
	a.mu.Lock()
	to := a.choose(m)
	if to == nil {
		defer a.mu.Unlock()
		if m.isResponse() || a.over {
			return errNoStream
		}
		a.keep(m)
		return nil
	}
	a.mu.Unlock()
	select {
	case to.out <- m:
		return nil
	case <-to.gone:
		return errNoStream
	}
}

// answerLater ends the exchange of a request that may get no other response.
func (a *remoteAgent) answerLater(m message) {
	a.mu.Lock()
	to := a.choose(m) // an exchange that begins later may have the same identifier
	a.mu.Unlock()
	if to == nil {
		return
	}
	time.AfterFunc(cancelGrace, func() {
		select {
		case to.out <- m:
		case <-to.gone:
		}
	})
}

// keep keeps a message for the stream of the next GET, instead of the oldest ones if there are too many. The mutex is held.
func (a *remoteAgent) keep(m message) {
	a.kept, a.keptSize = append(a.kept, m), a.keptSize+len(m.Params)
	for len(a.kept) > maxKept || a.keptSize > maxKeptSize {
		a.keptSize -= len(a.kept[0].Params)
		a.kept = a.kept[1:]
	}
}

// choose returns the stream for a message, nil if there is none. The mutex is held.
func (a *remoteAgent) choose(m message) *stream {
	if m.isResponse() {
		return a.streams[string(m.ID)]
	}
	if to := a.streams[m.about]; to != nil {
		return to
	}
	if a.general != nil {
		return a.general
	}
	if m.hasID() { // a question must reach the agent
		for _, to := range a.streams {
			return to
		}
	}
	return nil
}

// exchange hands over a request and writes the messages that belong to it, the response last.
func (a *remoteAgent) exchange(w http.ResponseWriter, r *http.Request, m message) {
	to := &stream{out: make(chan message, maxStream), gone: make(chan struct{})}
	defer close(to.gone)
	id := string(m.ID)
	a.mu.Lock()
	_, twice := a.streams[id]
	if !twice {
		a.streams[id] = to
	}
	a.mu.Unlock()
	if twice {
		refuse(w, http.StatusBadRequest, failed(m.ID, &fault{Code: codeUnavailable, Message: "a request with this id is in flight"}))
		return
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.streams, id)
	}()
	if !a.receive(r.Context(), m) {
		http.Error(w, "the session is over", http.StatusNotFound)
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), typeEvents) {
		a.answerWhole(w, r, to)
		return
	}
	a.stream(w, r, to, true)
}

// answerWhole writes only the response, to agents that do not accept a stream.
func (a *remoteAgent) answerWhole(w http.ResponseWriter, r *http.Request, to *stream) {
	for {
		select {
		case m := <-to.out:
			if m.isResponse() {
				refuse(w, http.StatusOK, m)
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// listen writes the messages that belong to no request.
func (a *remoteAgent) listen(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	to := &stream{out: make(chan message, len(a.kept)+maxStream), gone: make(chan struct{})}
	defer close(to.gone)
	taken := a.general != nil
	if !taken {
		a.general = to
		for _, m := range a.kept {
			to.out <- m
		}
		a.kept, a.keptSize = nil, 0
	}
	a.mu.Unlock()
	if taken {
		http.Error(w, "the session has such a stream already", http.StatusConflict)
		return
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.general = nil
	}()
	a.stream(w, r, to, false)
}

// stream writes events until the response was written, the agent is gone or the
// session is over.
func (a *remoteAgent) stream(w http.ResponseWriter, r *http.Request, to *stream, toResponse bool) {
	w.Header().Set("Content-Type", typeEvents)
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	ended := a.ended.Done()
	var late <-chan time.Time
	for {
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case m := <-to.out:
			text, err := encodeMessage(m)
			if err != nil {
				continue
			}
			if _, err := io.WriteString(w, "event: message\ndata: "+string(text)+"\n\n"); err != nil {
				return
			}
			if toResponse && m.isResponse() {
				_ = out.Flush() // the end of the response does the same
				return
			}
		case <-ticker.C:
			a.touch()
			if _, err := io.WriteString(w, ": waiting\n\n"); err != nil {
				return
			}
		case <-ended:
			if !toResponse {
				return
			}
			ended, late = nil, time.After(stopTimeout) // calls that are being finished are answered
		case <-late:
			return
		case <-r.Context().Done():
			return
		}
	}
}
