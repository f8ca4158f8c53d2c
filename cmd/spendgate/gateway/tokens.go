package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/spend"
	"spendgate/config"
	"spendgate/hotpath/signin"
)

// tokens are those of the agents: a folder with one file for each agent, whose name is the agent's, and those that issuers sign.
// Names are in NFC, as budgets compare them.
type tokens struct {
	folder string // empty if there is none
	signed []*signer
	log    *slog.Logger
	faulty prometheus.Gauge

	mu     sync.Mutex
	next   time.Time // when the folder is looked at again
	unread error     // why the folder cannot be read; then no token in it is valid
	files  map[string]tokenFile
	agents map[[sha256.Size]byte]string // by the token's hash
}

// tokenFile is an agent's file. With a fault its token is not valid.
type tokenFile struct {
	info  os.FileInfo
	sum   [sha256.Size]byte
	fault string
}

// signer is an issuer. Its agents are named by a claim, with a prefix that begins the name of nobody else.
type signer struct {
	*signin.Bearer
	prefix string
}

const (
	lookEvery = time.Second
	lookShare = 20          // of the time, at most one part is spent on looking
	clockSkew = time.Minute // between an issuer's clock and this one, which Who allows for
)

func readTokens(f *File, log *slog.Logger, faulty prometheus.Gauge) (*tokens, error) {
	t := &tokens{log: log, faulty: faulty}
	for _, i := range f.Issuers {
		t.signed = append(t.signed, &signer{signin.NewBearer(i.URL, i.Audience, i.AgentClaim, log, time.Now), *i.AgentPrefix})
	}
	if f.Tokens != "" {
		t.folder = f.beside(f.Tokens)
		t.reload()
	}
	return t, t.unread
}

// reload reads the whole folder again.
func (t *tokens) reload() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files = nil
	t.look()
}

// look reads the files of the folder that have changed since they were read, and those at fault. The mutex is held.
func (t *tokens) look() {
	began, was := time.Now(), t.files
	defer func() { t.next = time.Now().Add(max(lookEvery, lookShare*time.Since(began))) }()
	entries, err := os.ReadDir(t.folder)
	if err != nil && fmt.Sprint(err) != fmt.Sprint(t.unread) {
		t.log.Error("the folder of tokens cannot be read: no agent in it has access", "error", err)
	}
	t.files, t.agents = make(map[string]tokenFile, len(was)), make(map[[sha256.Size]byte]string, len(was))
	if t.unread = err; err != nil {
		t.faulty.Set(1)
		return
	}
	owners := make(map[[sha256.Size]byte]string, len(was))
	for _, e := range entries {
		name, path := e.Name(), filepath.Join(t.folder, e.Name())
		info, err := os.Stat(path) // a link counts as what it leads to
		if strings.HasPrefix(name, ".") || err == nil && !info.Mode().IsRegular() {
			continue
		}
		f, read := was[name]
		if !read || err != nil || f.fault != "" || f.info.Size() != info.Size() || !f.info.ModTime().Equal(info.ModTime()) {
			f = t.readToken(path, info, err)
		}
		if t.files[name] = f; f.fault != "" {
			continue
		}
		t.agents[f.sum] = spend.NFC(name)
		if other, twice := owners[f.sum]; twice { // who asks would not be known
			twin := tokenFile{fault: "has the same token as another one"}
			t.files[name], t.files[other], t.agents[f.sum] = twin, twin, ""
		}
		owners[f.sum] = name
	}
	faults := 0
	for name, f := range t.files {
		if f.fault == "" {
			continue
		}
		if faults++; was[name].fault != f.fault {
			t.log.Error("an agent's file of a token is at fault: the agent has no access", "agent_id", name, "error", f.fault)
		}
	}
	t.faulty.Set(float64(faults))
}

func (t *tokens) readToken(path string, info os.FileInfo, err error) tokenFile {
	token := ""
	if err == nil {
		token, err = secret(path)
	}
	if err == nil {
		_, err = config.ParseToken(token)
	}
	if err == nil && t.owner(filepath.Base(path)) != nil {
		err = errors.New("has a name that begins with an issuer's agent_prefix")
	}
	f := tokenFile{info: info, sum: sha256.Sum256([]byte(token))}
	if err != nil {
		f.fault = err.Error()
	}
	return f
}

// errUnknown is why a request is to be made again.
var errUnknown = errors.New("whose token this is cannot be found out now: make the request again later")

// verify returns the agent of a token.
func (t *tokens) verify(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	t.mu.Lock()
	if t.folder != "" && time.Now().After(t.next) {
		t.look()
	}
	agent, unread := t.agents[sha256.Sum256([]byte(token))], error(nil) // comparing hashes tells nothing of a token
	if t.unread != nil {
		unread = errUnknown
	}
	t.mu.Unlock()
	if agent != "" {
		return &auth.TokenInfo{UserID: agent}, nil
	}
	refusal := errors.New("no agent has this token")
	for _, s := range t.signed {
		if !s.Claims(token) {
			continue
		}
		unread = nil
		who, until, err := s.Who(ctx, token)
		who = spend.NFC(s.prefix + who)
		switch {
		case err != nil && !errors.Is(err, signin.ErrToken):
			t.log.Warn("an issuer cannot be asked about a token", "error", err)
			return nil, errUnknown
		case err != nil:
			refusal = err
		case t.owner(who) != s:
			refusal = errors.New("the name in it is that of another agent")
		default:
			return &auth.TokenInfo{UserID: who, Expiration: until.Add(clockSkew)}, nil
		}
	}
	return nil, cmp.Or(unread, errors.Join(auth.ErrInvalidToken, refusal))
}

// stillKnown fails if the agent of a request has lost its access since: people may have taken long to approve.
func (g *Gateway) stillKnown(ctx context.Context, extra *mcp.RequestExtra) error {
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	_, token, _ := strings.Cut(extra.Header.Get("Authorization"), " ")
	now, err := g.tokens.verify(ctx, strings.TrimSpace(token), nil)
	if err != nil || now.UserID != extra.TokenInfo.UserID {
		return errors.New("the agent's token is not valid any more")
	}
	return nil
}

// owner returns the issuer whose agents' names begin like this one: that with the longest prefix, nil if there is none.
func (t *tokens) owner(agent string) (of *signer) {
	for _, s := range t.signed {
		if strings.HasPrefix(spend.NFC(agent), s.prefix) && (of == nil || len(s.prefix) > len(of.prefix)) {
			of = s
		}
	}
	return of
}
