package signin

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// claims are the provider's statements about a person.
type claims struct {
	Subject  string      `json:"sub"`
	Session  string      `json:"sid"`
	Party    string      `json:"azp"`
	Name     string      `json:"name"`
	Username string      `json:"preferred_username"`
	Email    string      `json:"email"`
	Groups   groupsClaim `json:"groups"`
}

// identify proves the ID token, and completes it by userinfo.
func (s *SignIn) identify(ctx context.Context, p *provider, tokens *oauth2.Token, a *attempt) (*claims, error) {
	raw, _ := tokens.Extra("id_token").(string)
	token, err := p.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	c := new(claims)
	if err := token.Claims(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	switch {
	case !is(token.Nonce, a.nonce):
		return nil, fmt.Errorf("%w: its nonce is not that of the sign-in", ErrToken)
	case c.Party != "" && c.Party != s.ClientID, c.Party == "" && len(token.Audience) > 1:
		return nil, fmt.Errorf("%w: it was made for another client", ErrToken)
	case token.Expiry.IsZero():
		return nil, fmt.Errorf("%w: it has no exp", ErrToken)
	}
	if err := s.checkTimes(token); err != nil {
		return nil, err
	}
	if token.AccessTokenHash != "" && token.VerifyAccessToken(tokens.AccessToken) != nil {
		return nil, fmt.Errorf("%w: its at_hash is of another access token", ErrToken)
	}
	if p.UserInfoEndpoint() == "" || c.Groups != nil && c.Name != "" && c.Email != "" {
		return c, nil
	}
	return c, p.complete(ctx, c, tokens)
}

// complete adds the claims that the ID token lacks.
func (p *provider) complete(ctx context.Context, c *claims, tokens *oauth2.Token) error {
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fmt.Errorf("%w: userinfo: %w", ErrProvider, brief(err))
	}
	var more claims
	if err := info.Claims(&more); err != nil {
		return fmt.Errorf("%w: userinfo: %w", ErrProvider, brief(err))
	}
	if info.Subject != c.Subject {
		return fmt.Errorf("%w: userinfo is of somebody else", ErrToken)
	}
	for _, text := range []struct{ has, says *string }{{&c.Name, &more.Name}, {&c.Username, &more.Username}, {&c.Email, &more.Email}} {
		if *text.has == "" {
			*text.has = *text.says
		}
	}
	if c.Groups == nil {
		c.Groups = more.Groups
	}
	return nil
}

// checkTimes refuses a token that has expired, or was made at another time than now. A
// logout token need not say when it expires.
func (s *SignIn) checkTimes(token *oidc.IDToken) error {
	now := s.Now()
	switch {
	case !token.Expiry.IsZero() && !now.Add(-leeway).Before(token.Expiry):
		return fmt.Errorf("%w: it has expired", ErrToken)
	case token.IssuedAt.After(now.Add(leeway)), token.IssuedAt.Before(now.Add(-tokenAge - leeway)):
		return fmt.Errorf("%w: it was not made just now (iat)", ErrToken)
	}
	return nil
}

func (s *SignIn) sessionOf(c *claims) (*audit.Session, error) {
	principal := s.Label + ":" + c.Subject
	if spend.Blank(c.Subject) || c.Subject != clean(c.Subject, maxPersonText) || utf8.RuneCountInString(principal) > spend.MaxPrincipal {
		return nil, fmt.Errorf("%w: its sub makes no principal: it must be printable, and have at most %d characters with %q before it", ErrToken,
			spend.MaxPrincipal, s.Label+":")
	}
	session := &audit.Session{
		Subject: audit.Subject{Issuer: s.Issuer, Subject: c.Subject, Session: c.Session}, Name: clean(c.Name, maxPersonText),
		Email: clean(c.Email, maxEmail),
	}
	if session.Name == "" {
		session.Name = clean(c.Username, maxPersonText)
	}
	grants, err := grantsOf(s.Roles, c.Groups)
	grants.Principal = principal
	// The owner of a key identifies the person behind it, usually by an e-mail address (S62).
	if grants.Owner = clean(c.Email, spend.MaxPrincipal); grants.Owner == "" {
		grants.Owner = principal
	}
	session.Grants = grants
	return session, err
}

// Logout returns whose sessions a logout token ends, once it is proved.
func (s *SignIn) Logout(ctx context.Context, raw string) (audit.Logout, error) {
	leave, err := enter(ctx, s.tokens)
	if err != nil {
		return audit.Logout{}, err
	}
	defer leave()
	p, err := s.find(ctx)
	if err != nil {
		return audit.Logout{}, err
	}
	token, err := p.logouts.Verify(ctx, raw)
	if err != nil {
		return audit.Logout{}, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	var c struct {
		Session string                    `json:"sid"`
		ID      string                    `json:"jti"`
		Events  map[string]map[string]any `json:"events"`
		Nonce   *any                      `json:"nonce"`
	}
	if err := token.Claims(&c); err != nil {
		return audit.Logout{}, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	switch event := c.Events[logoutEvent]; {
	case event == nil:
		return audit.Logout{}, fmt.Errorf("%w: it is no logout token", ErrToken)
	case c.Nonce != nil:
		return audit.Logout{}, fmt.Errorf("%w: a logout token has no nonce", ErrToken)
	case c.ID == "":
		return audit.Logout{}, fmt.Errorf("%w: it has no jti", ErrToken)
	case token.Subject == "" && c.Session == "":
		return audit.Logout{}, fmt.Errorf("%w: it has neither sub nor sid", ErrToken)
	}
	return audit.Logout{
		Subject: audit.Subject{Issuer: s.Issuer, Subject: token.Subject, Session: c.Session}, Token: spend.HashKey(s.Issuer + "\n" + c.ID),
	}, s.checkTimes(token)
}

// clean returns a text that is fit for people to look at: printable, and not too long.
func clean(s string, most int) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s))
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most])
	}
	return s
}
