package config

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// OIDC is the OpenID Connect provider with which people sign in (S78).
type OIDC struct {
	Label        string // begins principals: what SPENDGATE_OIDC_ISSUER says before "=", or the issuer's host
	Issuer       string
	ClientID     string
	ClientSecret Secret
	RedirectURL  string
	Roles        string // JSON, as signin.ParseRoles reads it
	GroupsClaim  string
	EmailClaim   string
	NameClaim    string
}

// readOIDC returns nil when nobody signs in: it takes all settings without a default, or none at all.
func readOIDC(s *source) *OIDC {
	names := []string{"OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "OIDC_REDIRECT_URL", "OIDC_ROLES"}
	if !slices.ContainsFunc(append(names, "OIDC_GROUPS_CLAIM", "OIDC_EMAIL_CLAIM", "OIDC_NAME_CLAIM"), s.given) {
		return nil
	}
	for _, name := range names {
		if !s.given(name) {
			s.fault(name, "is required with the other "+prefix+"OIDC_ settings")
		}
	}
	o := read(s, "OIDC_ISSUER", OIDC{}, parseIssuer)
	o.ClientID = read(s, "OIDC_CLIENT_ID", "", parseText)
	o.ClientSecret = read(s, "OIDC_CLIENT_SECRET", "", parseKey)
	o.RedirectURL = read(s, "OIDC_REDIRECT_URL", "", parseRedirect)
	o.Roles = read(s, "OIDC_ROLES", "", parseText)
	o.GroupsClaim = read(s, "OIDC_GROUPS_CLAIM", "groups", parseText)
	o.EmailClaim = read(s, "OIDC_EMAIL_CLAIM", "email", parseText)
	o.NameClaim = read(s, "OIDC_NAME_CLAIM", "name", parseText)
	return &o
}

// parseIssuer reads the URL of an issuer, and LABEL= before it.
func parseIssuer(s string) (o OIDC, err error) {
	if label, issuer, given := strings.Cut(s, "="); given && !strings.Contains(label, "/") {
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,31}$`).MatchString(label) {
			return o, errors.New("has a label that is not 1 to 32 of a-z, 0-9, dot and hyphen")
		}
		o.Label, s = label, issuer
	}
	u, err := parseSecureURL(s)
	if err != nil {
		return o, err
	}
	o.Issuer = s
	if o.Label == "" {
		o.Label = strings.ToLower(u.Hostname())
	}
	return o, nil
}

// parseRedirect accepts where the provider sends browsers back to: a path that the service
// serves nothing at.
func parseRedirect(s string) (string, error) {
	u, err := parseSecureURL(s)
	if err != nil {
		return "", err
	}
	taken := []string{
		"console", "console/assets", "console/sign-in", "console/sign-out", "console/session", "console/take-over", "console/backchannel-logout",
	}
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	first, _, _ := strings.Cut(path, "/")
	if !regexp.MustCompile(`^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$`).MatchString(path) || slices.Contains(taken, path) ||
		slices.Contains([]string{"v1", "health"}, first) || strings.HasPrefix(path, "console/assets/") {
		return "", errors.New("must have a path that is free, such as /console/callback")
	}
	return s, nil
}

// parseSecureURL accepts https, and http of this machine alone.
func parseSecureURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("must be an https:// URL")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("must have no user, query or fragment")
	}
	if u.Host != strings.ToLower(u.Host) || strings.HasSuffix(u.Host, ":") {
		return nil, errors.New("must have its host in lower case, as browsers write it")
	}
	if u.Scheme == "http" && !IsLoopback(u.Hostname()) {
		return nil, errors.New("must be https, unless it is of this machine")
	}
	return u, nil
}

// IsLoopback reports whether a host is this machine: what is sent there stays here.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
