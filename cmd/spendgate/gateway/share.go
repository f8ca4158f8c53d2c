package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Shares is the transport to the service. It counts what each agent asks: one that loops would use up the rate limit of the
// gateway's key for all.
type Shares struct {
	Base http.RoundTripper

	mu    sync.Mutex
	until time.Time      // of the key's window
	left  int            // of its requests
	made  map[string]int // by each agent
}

type agentKey struct{}

// RoundTrip implements http.RoundTripper.
func (s *Shares) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.Base.RoundTrip(r)
	agent, known := r.Context().Value(agentKey{}).(string)
	if err != nil || !known || response.StatusCode >= http.StatusInternalServerError { // which says nothing of the key
		return response, err
	}
	left, _ := strconv.Atoi(response.Header.Get("X-RateLimit-Remaining"))
	end, err := strconv.ParseInt(response.Header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil { // it is not the service's
		return response, nil
	}
	until := time.Unix(end, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !until.Equal(s.until) {
		s.until, s.made = until, make(map[string]int)
	}
	s.left = left
	s.made[agent]++
	return response, nil
}

// mostShare bounds how much an agent asks, by what that leaves to all others.
const mostShare = 3

// refuse returns why an agent may ask no more in this window.
func (s *Shares) refuse(agent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Until(s.until)
	if wait <= 0 || s.made[agent] <= mostShare*s.left {
		return nil
	}
	return fmt.Errorf("this agent has made %d of the requests that the gateway's key has in a minute, and leaves %d to all others: "+
		"call again after %.0f s, with exactly the same arguments", s.made[agent], s.left, wait.Seconds()+1)
}
