package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spendgate/audit/pause"
)

// The defaults of Options.
const (
	DefaultAttempts       = 4
	DefaultAttemptTimeout = 10 * time.Second // the service answers within 2 s even when a dependency is down (G7)
	DefaultMaxWait        = time.Minute      // the service's rate windows
)

// Options configure a Client.
type Options struct {
	BaseURL  string // http://host:port or https://host, without /v1
	APIKey   string // for all requests except Health, and Simulate, which is in demo mode without it
	AdminKey string // for the API keys

	Session string // of a person who has signed in (S78), used in place of an API key; an API key has precedence
	Origin  string // of the console; the service requires it of requests with a session that change something

	Attempts       int           // the maximum for one request; 1 repeats nothing
	AttemptTimeout time.Duration // for each attempt
	MaxWait        time.Duration // the longest Retry-After that is waited for; a longer one is returned as an error

	// Trace returns the W3C Trace Context of a request's context, for tracing libraries; an empty
	// traceparent is not sent. If Trace is nil, the values of WithTrace are sent.
	Trace func(context.Context) (traceparent, tracestate string)

	HTTPClient *http.Client // nil makes one; redirects are never followed
	UserAgent  string       // "spendgate-client" when empty
}

// String returns the service's address and no key.
func (o Options) String() string { return "options of a spendgate client of " + o.BaseURL }

// GoString returns String, so that %#v shows no key either.
func (o Options) GoString() string { return o.String() }

// Client sends requests to one service. It is safe for concurrent use.
type Client struct {
	base     string
	attempts int
	timeout  time.Duration
	maxWait  time.Duration
	http     http.Client
	// identify puts a key into a request. It is a function, so that the keys cannot be
	// printed with the Client.
	identify  func(h http.Header, admin bool)
	adminOnly bool // it has no other key
	trace     func(context.Context) (traceparent, tracestate string)
	pause     func(context.Context, time.Duration) error
}

// New checks the options and makes a Client; it sends nothing.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("client: BaseURL must be http://host:port or https://host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: BaseURL must have no user, query or fragment")
	}
	if strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1") {
		return nil, errors.New("client: BaseURL must not end with /v1, which the client adds")
	}
	o.UserAgent = cmp.Or(o.UserAgent, "spendgate-client")
	for name, value := range map[string]string{
		"APIKey": o.APIKey, "AdminKey": o.AdminKey, "Session": o.Session, "Origin": o.Origin, "UserAgent": o.UserAgent,
	} {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, errors.New("client: " + name + " has a character that no header can carry")
		}
	}
	c := &Client{
		base:      strings.TrimRight(o.BaseURL, "/"),
		attempts:  cmp.Or(max(o.Attempts, 0), DefaultAttempts),
		timeout:   cmp.Or(max(o.AttemptTimeout, 0), DefaultAttemptTimeout),
		maxWait:   cmp.Or(max(o.MaxWait, 0), DefaultMaxWait),
		identify:  identification(o),
		adminOnly: o.APIKey == "" && o.Session == "",
		trace:     o.Trace,
		pause:     pause.For,
	}
	if c.trace == nil {
		c.trace = traceOf
	}
	if o.HTTPClient != nil {
		c.http = *o.HTTPClient
	}
	// A redirect would send the key to another address.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// String returns the service's address and no key.
func (c *Client) String() string { return "spendgate client of " + c.base }

func identification(o Options) func(http.Header, bool) {
	return func(h http.Header, admin bool) {
		h.Set("User-Agent", o.UserAgent)
		switch { // a request needs only one key
		case admin && o.AdminKey != "":
			h.Set("X-Admin-Key", o.AdminKey)
		case !admin && o.APIKey != "":
			h.Set("X-API-Key", o.APIKey)
		case !admin && o.Session != "":
			h.Set("Cookie", "__Host-spendgate="+o.Session)
			h.Set("Origin", o.Origin)
		}
	}
}
