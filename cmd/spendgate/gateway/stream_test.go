package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

// A server without the stream of a GET says so with 404, too. Only behind such a stream does that mean that the session is over.
func TestWithoutStream(t *testing.T) {
	for name, test := range map[string]struct {
		streams int32 // before the first 404
		over    bool
	}{"no stream": {0, false}, "no session any more": {1, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newPlain(t)
			var streams atomic.Int32
			s.get = func(w http.ResponseWriter, _ string) {
				if streams.Add(1) <= test.streams {
					w.Header().Set("Content-Type", typeEvents)
				} else {
					w.WriteHeader(http.StatusNotFound)
				}
			}
			r := newRemote(&upstream{URL: p.url})
			r.session = "s"
			r.listen()
			if over := r.ctx.Err() != nil; over != test.over {
				t.Errorf("it is over: %v", over)
			}
			r.cancel()
		})
	}
}

// A server may end the stream of a call any number of times, without another event, before it answers.
func TestPolled(t *testing.T) {
	s, p := newPlain(t)
	f := newFakeService(t)
	agent := agentOf(t, guarded(t, f, p, "", ""))
	var call string
	polls := 0
	s.with(func() {
		s.wire = func(w http.ResponseWriter, id string) {
			call = id
			w.Header().Set("Content-Type", typeEvents)
			_, _ = io.WriteString(w, "id: 7\nretry: 1\ndata:\n\n")
		}
		s.get = func(w http.ResponseWriter, last string) {
			if last != "7" {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Set("Content-Type", typeEvents)
			if polls++; polls == 4 {
				_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":`+call+`,"result":{"content":[]}}`+"\n\n")
			}
		}
	})
	wants(t, agent, "ch_1", 1, stateExecuted, "")
}
