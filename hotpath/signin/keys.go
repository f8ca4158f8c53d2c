package signin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// keysEvery is how often logout tokens have the provider's keys read again, in the long
	// run: anybody can send one that names a key which nobody knows.
	keysEvery = 5 * time.Second
	// keysAtOnce is how often without waiting for that: at first, and when keys are rotated.
	keysAtOnce = 2
)

var errKeysRead = errors.New("the provider's keys were read a moment ago, and none of them fits")

// sparing reads the provider's keys. It refuses requests that are too many: keysAtOnce, and one more every keysEvery.
type sparing struct {
	http.RoundTripper
	now func() time.Time

	mu     sync.Mutex
	spent  time.Time // until when what was requested is paid for
	failed error     // of the last request
}

// RoundTrip implements http.RoundTripper. The error of a request that is too many is that of the last one, if that failed.
func (s *sparing) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.take() {
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, cmp.Or(s.failed, errKeysRead)
	}
	answer, err := s.read(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return answer, err
}

// read fails with whatever is no set of keys: the library's errors do not tell that from a token without a key.
func (s *sparing) read(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the provider answers %s", answer.Status)
	case !jsontext.Value(text).IsValid():
		return nil, errors.New("the provider answers something else than JSON")
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, nil
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
