package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"spendgate/config"
	"spendgate/hotpath/signin"
)

// tokens are those of the agents: a folder with one file for each agent, whose name is the agent's, and those that issuers sign.
type tokens struct {
	folder  string // empty if there is none
	bearers []*signin.Bearer
	log     *slog.Logger

	mu     sync.Mutex
	looked time.Time
	files  map[string]stamp
	agents map[[sha256.Size]byte]string // by the token's hash
}

// stamp tells whether a file has changed.
type stamp struct {
	size  int64
	mtime time.Time
}

const (
	lookEvery = time.Second
	clockSkew = time.Minute // between an issuer's clock and this one, which Who allows for
)

func readTokens(f *File, log *slog.Logger) (*tokens, error) {
	t := &tokens{log: log}
	if f.Tokens != "" {
		t.folder = f.beside(f.Tokens)
	}
	for _, i := range f.Issuers {
		t.bearers = append(t.bearers, signin.NewBearer(i.URL, i.Audience, i.AgentClaim, log, time.Now))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t, t.read()
}

// read reads the folder if something in it has changed. If it is at fault, the tokens stay as they were. The mutex is held.
func (t *tokens) read() error {
	t.looked = time.Now()
	if t.folder == "" {
		return nil
	}
	entries, err := os.ReadDir(t.folder)
	if err != nil {
		return err
	}
	files := make(map[string]stamp)
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(t.folder, e.Name())) // a link counts as what it leads to
		if strings.HasPrefix(e.Name(), ".") || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return err
		}
		files[e.Name()] = stamp{info.Size(), info.ModTime()}
	}
	if t.agents != nil && maps.Equal(files, t.files) {
		return nil
	}
	agents := make(map[[sha256.Size]byte]string)
	for name := range files {
		token, err := (&File{path: filepath.Join(t.folder, name)}).secret(name)
		if err != nil {
			return err
		}
		if _, err := config.ParseToken(token); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
		sum := sha256.Sum256([]byte(token))
		if other, taken := agents[sum]; taken {
			return fmt.Errorf("%s and %s have the same token: who asks would not be known", min(name, other), max(name, other))
		}
		agents[sum] = name
	}
	t.files, t.agents = files, agents
	return nil
}

// reload reads the folder again.
func (t *tokens) reload() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.read(); err != nil {
		t.log.Error("the agents' tokens stay as they were", "error", err)
	}
}

// verify returns the agent of a token.
func (t *tokens) verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	if t.stale() {
		t.reload()
	}
	sum := sha256.Sum256([]byte(token)) // comparing hashes tells nothing of a token
	t.mu.Lock()
	agent, known := t.agents[sum]
	t.mu.Unlock()
	if known {
		return &auth.TokenInfo{UserID: agent}, nil
	}
	refusal := errors.New("no agent has this token")
	for _, b := range t.bearers {
		who, until, err := b.Who(ctx, token)
		if err == nil {
			return &auth.TokenInfo{UserID: who, Expiration: until.Add(clockSkew)}, nil
		}
		if !errors.Is(err, signin.ErrToken) {
			return nil, err
		}
		refusal = err
	}
	return nil, errors.Join(auth.ErrInvalidToken, refusal)
}

func (t *tokens) stale() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.looked) > lookEvery
}
