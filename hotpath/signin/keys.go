package signin

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// keysEvery is how often logout tokens have the provider's keys read again, in the long
	// run: anybody can send one that names a key which nobody knows.
	keysEvery = 5 * time.Second
	// keysAtOnce is how often without waiting for that: at first, and when keys are rotated.
	keysAtOnce = 2
)

var errKeysRead = errors.New("the provider's keys were read a moment ago, and none of them fits")

// sparing refuses requests that are too many: keysAtOnce, and one more every keysEvery.
type sparing struct {
	http.RoundTripper
	now func() time.Time

	mu    sync.Mutex
	spent time.Time // until when what was requested is paid for
}

// RoundTrip implements http.RoundTripper.
func (s *sparing) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.take() {
		return nil, errKeysRead
	}
	return s.RoundTripper.RoundTrip(r)
}

func (s *sparing) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.spent.Before(now) {
		s.spent = now
	}
	if s.spent.Sub(now) > (keysAtOnce-1)*keysEvery {
		return false
	}
	s.spent = s.spent.Add(keysEvery)
	return true
}
