package httpapi

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// limitedFor is the period after which a line of the log says whose requests were refused most.
	limitedFor = time.Minute
	// maxLimitedKeys bounds the memory of a period; the keys beyond are counted together.
	maxLimitedKeys = 4096
	// topLimitedKeys is how many keys the line names.
	topLimitedKeys = 10
)

// limited counts the requests over a rate limit by API key.
type limited struct {
	mu    sync.Mutex
	byKey map[string]*limitedKey // of the period; nil between two
}

// limitedKey counts the refused requests of a key: since its last line, and in the whole period.
type limitedKey struct {
	tally

	requests int64
}

// add counts a request of a key. When a line for that key is due it returns how many requests the line
// stands for. begins is true for the first request of a period, which take ends.
func (l *limited) add(keyID string, now time.Time) (n int64, due, begins bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey, begins = make(map[string]*limitedKey), true
	}
	if l.byKey[keyID] == nil && len(l.byKey) >= maxLimitedKeys {
		keyID = ""
	}
	own := l.byKey[keyID]
	if own == nil {
		own = new(limitedKey)
		l.byKey[keyID] = own
	}
	own.requests++
	n, due = own.add(now)
	return n, due, begins
}

// refusedKey is how many requests of a key were refused; of no key, of demos and of the
// keys beyond maxLimitedKeys, KeyID is empty.
type refusedKey struct {
	KeyID    string `json:"key_id"`
	Requests int64  `json:"requests"`
}

// take ends the period: the keys with most refused requests, of how many keys, and
// how many requests of all.
func (l *limited) take() (top []refusedKey, keys int, requests int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for keyID, k := range l.byKey {
		top = append(top, refusedKey{keyID, k.requests})
		requests += k.requests
	}
	l.byKey = nil
	slices.SortFunc(top, func(a, b refusedKey) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.KeyID, b.KeyID))
	})
	return top[:min(len(top), topLimitedKeys)], len(top), requests
}

// noteLimited counts a request over the rate limit of a key and returns the attributes
// that its line has besides the usual ones: an agent in a loop causes thousands a second,
// so there is one a second for each key.
func (a *API) noteLimited(keyID string) (attrs []slog.Attr, due bool) {
	requests, due, begins := a.limited.add(keyID, time.Now())
	if begins {
		time.AfterFunc(limitedFor, a.logLimited)
	}
	return []slog.Attr{slog.Int64("requests", requests)}, due
}

// logLimited logs whose requests were refused most in the period that ends.
func (a *API) logLimited() {
	top, keys, requests := a.limited.take()
	a.Logger.Info("requests over their rate limit were refused", slog.Int64("requests", requests), slog.Int("keys", keys),
		slog.Any("top_keys", top))
}
