package signin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
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
	asked  int       // requests that began, also those that were too many
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

// begun returns how many requests began.
func (s *sparing) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
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
	s.asked++
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

// sparedKeys are keys that a sparing transport reads.
type sparedKeys struct {
	oidc.KeySet
	transport *sparing
}

// VerifySignature implements oidc.KeySet. The library gives one request's keys to all who wait for it, and for a moment after it has
// ended. A token that came after the request may be signed with a newer key: if none fits, the library is asked again.
func (k sparedKeys) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	const most = 100
	for range most {
		before := k.transport.begun()
		payload, err = k.KeySet.VerifySignature(ctx, jwt)
		if err == nil || ctx.Err() != nil || k.transport.begun() != before {
			return payload, err
		}
		time.Sleep(time.Millisecond)
	}
	return payload, err
}
