package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The exchange of a request that the agent cancelled ends, though the server does not answer it.
func TestCancelledExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := sessionOf(t, "one")
		a := new(remoteAgent)
		s.agent = a
		to := &stream{out: make(chan message, 1)}
		a.streams = map[string]*stream{"7": to}
		s.fromAgent(message{ID: jsontext.Value("7"), Method: "prompts/get", Params: jsontext.Value(`{"name":"p"}`)})
		s.fromAgent(message{Method: noteCancelled, Params: jsontext.Value(`{"requestId":7}`)})
		if m := <-to.out; string(m.ID) != "7" || m.Error == nil {
			t.Errorf("%+v", m)
		}
	})
}

// What is kept until an agent listens is bounded, in messages and in bytes.
func TestKept(t *testing.T) {
	for name, test := range map[string]struct{ size, kept int }{
		"many": {10, maxKept}, "large": {maxKeptSize / 3, 3}, "too large": {maxKeptSize + 1, 0},
	} {
		a := new(remoteAgent)
		for range test.kept + 2 {
			if err := a.write(message{Method: "notifications/x", Params: bytes.Repeat([]byte("1"), test.size)}); err != nil {
				t.Fatal(err)
			}
		}
		if len(a.kept) != test.kept || a.keptSize != test.kept*test.size {
			t.Errorf("%s: %d messages of %d bytes are kept", name, len(a.kept), a.keptSize)
		}
	}
}

// streams is an HTTP client's transport to a server that ends each stream at once.
type streams struct {
	answer func() (status int, text string)
}

func (s streams) RoundTrip(*http.Request) (*http.Response, error) {
	status, text := s.answer()
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}}, nil
}

// A server says how long the gateway waits before it listens again.
func TestListenRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(&upstream{URL: "http://127.0.0.1:1"})
		var asked []time.Time
		r.client.Transport = streams{func() (int, string) {
			asked = append(asked, time.Now())
			if len(asked) == 4 {
				return http.StatusMethodNotAllowed, ""
			}
			return http.StatusOK, map[int]string{1: "retry: 20000\n\n", 2: ": nothing\n\n", 3: "retry: 1\n\n"}[len(asked)]
		}}
		r.listen()
		for i, want := range []time.Duration{20 * time.Second, 20 * time.Second, 500 * time.Millisecond} {
			if got := asked[i+1].Sub(asked[i]); got != want {
				t.Errorf("request %d comes after %s", i+1, got)
			}
		}
	})
}
