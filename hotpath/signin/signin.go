package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"spendgate/audit"
)

// The errors of a sign-in or a logout.
var (
	ErrProvider = errors.New("the sign-in provider does not answer as it should")
	ErrAttempt  = errors.New("the sign-in was not begun in this browser, or more than 10 minutes ago")
	ErrRefused  = errors.New("the provider did not sign in")
	ErrToken    = errors.New("the provider's token is refused")
	ErrNoRole   = errors.New("no group of the person has a role here")
	// ErrUnverified is refused since an e-mail tells who is behind keys, too (S62): without one somebody could
	// approve what their own key asked for, and with somebody else's be taken for them.
	ErrUnverified = fmt.Errorf("%w: the provider says that the e-mail is not verified", ErrNoRole)
	ErrOverage    = fmt.Errorf("%w: the provider left out the groups, which are too many (_claim_names)", ErrNoRole)
	ErrBusy       = errors.New("too many sign-ins at once")
)

const (
	leeway        = time.Minute // between the provider's clock and this one
	tokenAge      = 10 * time.Minute
	askWithin     = 5 * time.Second // each request to the provider
	maxAnswer     = 1 << 20
	atOnce        = 16
	retryAfter    = time.Second // a provider that did not answer
	renewAfter    = 5 * time.Minute
	keepFor       = 10 * time.Minute // what a provider said of itself, and its keys
	maxReason     = 200              // bytes of the provider's error that are logged
	maxPersonText = 128              // characters of a name; an e-mail has up to 254
	maxEmail      = 254

	maxGroupsLogged = 20
	logoutEvent     = "http://schemas.openid.net/event/backchannel-logout"
)

// Options configure one provider. All are required except Transport. A ...Claim is the exact name of a
// claim, or names with dots between them that lead to one inside others.
type Options struct {
	Label        string // begins principals; [a-z0-9.-]
	Issuer       string // URL
	ClientID     string
	ClientSecret string
	RedirectURL  string
	Roles        []Role
	GroupsClaim  string
	EmailClaim   string
	NameClaim    string
	Logger       *slog.Logger
	Now          func() time.Time
	Transport    http.RoundTripper // nil: http.DefaultTransport
}

// SignIn is a client of one provider. The provider is asked who it is when somebody first
// signs in, so that a node starts and serves without it, and again now and then. It is safe for concurrent use.
type SignIn struct {
	Options
	key    []byte // of attempts
	client *http.Client
	places chan struct{} // of people
	tokens chan struct{} // of logouts, which anybody can send

	mu       sync.Mutex
	provider *provider
	until    time.Time     // when requests wait for it to be asked again
	failed   error         // of the last attempt to find it
	again    time.Time     // when it may be asked
	asking   chan struct{} // closed when it was; nil while it is not
}

// provider is the result of discovery.
type provider struct {
	*oidc.Provider
	oauth2   oauth2.Config
	verifier *oidc.IDTokenVerifier
	logouts  *oidc.IDTokenVerifier // which reads the provider's keys less often
}

// New makes a client. It asks nobody.
func New(o Options) *SignIn {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	return &SignIn{
		// Of the secret that all nodes have: a browser may come back to another one.
		Options: o, key: sign([]byte(o.ClientSecret), []byte("spendgate sign-in attempt 4\n"+o.ClientID)), places: make(chan struct{}, atOnce),
		tokens: make(chan struct{}, atOnce),
		client: &http.Client{
			Transport: bounded{o.Transport}, Timeout: askWithin,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// bounded reads no more than maxAnswer of an answer.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// enter takes one of the places for requests to the provider, and waits for one as long as for a
// response.
func enter(ctx context.Context, places chan struct{}) (leave func(), err error) {
	wait := time.NewTimer(askWithin)
	defer wait.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-wait.C:
	case <-ctx.Done():
	}
	return nil, ErrBusy
}

// find returns the provider. One that was found before is asked again in the background, so that keys which it
// withdrew stop counting; while it does not answer, they count.
func (s *SignIn) find(ctx context.Context) (*provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if s.asking == nil && !now.Before(s.again) {
		s.asking = make(chan struct{})
		go s.ask(s.asking, now, s.provider != nil)
	}
	if asking := s.asking; asking != nil && (s.provider == nil || !now.Before(s.until)) {
		s.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	if s.provider == nil {
		return nil, cmp.Or(s.failed, ErrBusy)
	}
	return s.provider, nil
}

// ask asks the provider who it is, and, if it was found before, for its keys.
func (s *SignIn) ask(asked chan struct{}, now time.Time, known bool) {
	p, keys, err := s.discover(context.Background())
	if err == nil && known {
		// The library fetches the keys, since it knows none. Only an error of that wraps another one.
		const signedByNobody = "eyJhbGciOiJSUzI1NiJ9.e30.AA"
		_, unknown := keys.VerifySignature(context.Background(), signedByNobody)
		err = errors.Unwrap(unknown)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(asked)
	s.asking = nil
	if err == nil {
		s.provider, s.again, s.until = p, now.Add(renewAfter), now.Add(keepFor)
		return
	}
	s.failed, s.again, s.until = fmt.Errorf("%w: discovery: %w", ErrProvider, brief(err)), now.Add(retryAfter), now.Add(keepFor)
	if known {
		s.again = now.Add(time.Minute)
		s.Logger.Warn("the provider's old keys count", "issuer", s.Issuer, "error", s.failed)
	}
}

func (s *SignIn) discover(ctx context.Context) (*provider, oidc.KeySet, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, s.client), s.Issuer)
	if err != nil {
		return nil, nil, err
	}
	var says struct {
		Scopes []string `json:"scopes_supported"`
		JWKS   string   `json:"jwks_uri"`
	}
	if err := found.Claims(&says); err != nil {
		return nil, nil, err
	}
	for _, url := range []string{found.Endpoint().AuthURL, found.Endpoint().TokenURL, says.JWKS} {
		if strings.HasPrefix(s.Issuer, "https://") && !strings.HasPrefix(url, "https://") {
			return nil, nil, errors.New("it names an endpoint without https")
		}
	}
	p := &provider{Provider: found}
	p.oauth2 = oauth2.Config{
		ClientID: s.ClientID, ClientSecret: s.ClientSecret, RedirectURL: s.RedirectURL, Endpoint: found.Endpoint(),
		Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}
	for _, scope := range says.Scopes {
		if scope == "groups" { // others refuse a scope that they do not know
			p.oauth2.Scopes = append(p.oauth2.Scopes, scope)
		}
	}
	config := &oidc.Config{
		ClientID: s.ClientID, SkipExpiryCheck: true, // see checkTimes
		SupportedSigningAlgs: []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512},
	}
	transport := &sparing{RoundTripper: s.client.Transport, now: s.Now}
	spare := *s.client
	spare.Transport = transport
	keys := func(client *http.Client) oidc.KeySet {
		return oidc.NewRemoteKeySet(oidc.ClientContext(ctx, client), says.JWKS)
	}
	spared := exactKeys{sparedKeys{keys(&spare), transport}}
	p.verifier, p.logouts = oidc.NewVerifier(s.Issuer, exactKeys{keys(s.client)}, config), oidc.NewVerifier(s.Issuer, spared, config)
	return p, spared, nil
}

// Begin returns the address at which a browser signs in, and the cookie that it must bring back; begun
// is the store's time, and of the command line that asks for it, or nil.
func (s *SignIn) Begin(ctx context.Context, begun time.Time, of *Loopback) (url, cookie string, err error) {
	leave, err := enter(ctx, s.places)
	if err != nil {
		return "", "", err
	}
	defer leave()
	p, err := s.find(ctx)
	if err != nil {
		return "", "", err
	}
	a := newAttempt(s.Now(), begun)
	if of != nil {
		a.loopback = *of
	}
	return p.oauth2.AuthCodeURL(text(a.state), oidc.Nonce(text(a.nonce)), oauth2.S256ChallengeOption(text(a.verifier))), a.seal(s.key), nil
}

// Answer is the query with which the provider sends a browser back.
type Answer struct {
	State, Code string
	Issuer      string // empty when it does not say (RFC 9207)
	Error       string // instead of a code
}

// End returns the session of the person whom the provider has authenticated, to be stored. With
// ErrNoRole the session identifies the person and grants nothing.
func (s *SignIn) End(ctx context.Context, cookie string, answer Answer) (*audit.Session, error) {
	a := open(s.key, cookie, s.Now())
	switch {
	case a == nil || !is(answer.State, a.state):
		return nil, ErrAttempt
	case answer.Issuer != "" && answer.Issuer != s.Issuer:
		return nil, fmt.Errorf("%w: the answer is of another issuer", ErrAttempt)
	case answer.Error != "":
		return nil, fmt.Errorf("%w: %w", ErrRefused, brief(errors.New(answer.Error)))
	case answer.Code == "":
		return nil, fmt.Errorf("%w: without a code", ErrRefused)
	}
	leave, err := enter(ctx, s.places)
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, s.client)
	tokens, err := p.oauth2.Exchange(ctx, answer.Code, oauth2.VerifierOption(text(a.verifier)))
	if err != nil {
		return nil, exchangeError(err)
	}
	who, err := s.identify(ctx, p, tokens, a)
	if err != nil {
		return nil, err
	}
	session, err := s.sessionOf(who)
	if session != nil {
		session.Begun = a.begun
	}
	return session, err
}

// exchangeError says why a code was refused, without quoting the provider's response.
func exchangeError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if refused.Response != nil && refused.Response.StatusCode >= http.StatusInternalServerError {
			return fmt.Errorf("%w: its token endpoint: %s", ErrProvider, refused.Response.Status)
		}
		return fmt.Errorf("%w: its token endpoint refuses the code: %w", ErrRefused, brief(errors.New(refused.ErrorCode)))
	}
	return fmt.Errorf("%w: its token endpoint: %w", ErrProvider, brief(err))
}

// brief is an error as the log has it: nothing that is long, or would break a line.
func brief(err error) error {
	text := clean(err.Error(), maxReason)
	if text == "" {
		text = "without a reason"
	}
	return errors.New(text)
}
