package signin

import (
	"testing"
	"time"
)

// A browser can bring back exactly what it was given, for a limited time.
func TestAttempt(t *testing.T) {
	now, key := time.Now().Truncate(time.Second), []byte("key")
	a := newAttempt(now, now.Add(-time.Hour))
	cookie := a.seal(key)
	if got := open(key, cookie, now.Add(AttemptFor-time.Second)); got == nil || got.state != a.state || got.nonce != a.nonce ||
		got.verifier != a.verifier || !got.begun.Equal(a.begun) || a.state == a.nonce {
		t.Errorf("came back %+v of %+v", got, a)
	}
	later := *a
	later.until = later.until.Add(time.Hour)
	for name, got := range map[string]*attempt{
		"too late": open(key, cookie, now.Add(AttemptFor)), "another key": open([]byte("other"), cookie, now),
		"no key": open(key, later.seal(nil), now), "cut": open(key, cookie[:len(cookie)-4], now), "nothing": open(key, "", now),
	} {
		if got != nil {
			t.Errorf("%s is taken", name)
		}
	}
}
