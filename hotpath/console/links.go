package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"sync"
	"time"
)

// linkFor is how long a link signs in.
const linkFor = 15 * time.Minute

// ErrLink says that a link signs nobody in.
var ErrLink = errors.New("the link was used, or is older than 15 minutes")

// Keys are the API keys that a link signs in with.
type Keys struct {
	API   string
	Admin string
}

// Links signs in people who see the output of the process: the link has a code that works once and for
// a limited time. It is safe for concurrent use.
type Links struct {
	mu    sync.Mutex
	code  [sha256.Size]byte // its hash
	until time.Time         // zero if there is no link
	keys  func(context.Context) (Keys, error)
}

// NewLinks returns links that sign in with the keys that the function returns, which is
// called when a link is used.
func NewLinks(keys func(context.Context) (Keys, error)) *Links { return &Links{keys: keys} }

// Make returns the code of a new link. One before it is good no longer.
func (l *Links) Make(now time.Time) (code string) {
	code = rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.code, l.until = sha256.Sum256([]byte(code)), now.Add(linkFor)
	return code
}

// Use returns the keys for a code, which is then used. A wrong one does not use up the
// right one.
func (l *Links) Use(ctx context.Context, code string, now time.Time) (Keys, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := sha256.Sum256([]byte(code))
	if !now.Before(l.until) || subtle.ConstantTimeCompare(sum[:], l.code[:]) == 0 {
		return Keys{}, ErrLink
	}
	keys, err := l.keys(ctx)
	if err == nil {
		l.until = time.Time{}
	}
	return keys, err
}
