package signin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// identify proves the ID token, and completes it by userinfo.
func (s *SignIn) identify(ctx context.Context, p *provider, tokens *oauth2.Token, a *attempt) (*person, error) {
	raw, _ := tokens.Extra("id_token").(string)
	token, err := p.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	c, err := claimsOf(token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	party, err := c.text("azp")
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	case !is(token.Nonce, a.nonce):
		return nil, fmt.Errorf("%w: its nonce is not that of the sign-in", ErrToken)
	case party != "" && party != s.ClientID, party == "" && len(token.Audience) > 1:
		return nil, fmt.Errorf("%w: it was made for another client", ErrToken)
	case token.Expiry.IsZero():
		return nil, fmt.Errorf("%w: it has no exp", ErrToken)
	}
	if err := s.checkTimes(token, c); err != nil {
		return nil, err
	}
	if token.AccessTokenHash != "" && token.VerifyAccessToken(tokens.AccessToken) != nil {
		return nil, fmt.Errorf("%w: its at_hash is of another access token", ErrToken)
	}
	who, err := s.personOf(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	if p.UserInfoEndpoint() == "" || who.suffices() {
		return who, nil
	}
	return who, s.complete(ctx, p, who, tokens)
}

// complete adds what the ID token lacks.
func (s *SignIn) complete(ctx context.Context, p *provider, who *person, tokens *oauth2.Token) error {
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fmt.Errorf("%w: userinfo: %w", ErrProvider, brief(err))
	}
	c, err := claimsOf(info)
	if err != nil {
		return fmt.Errorf("%w: userinfo: %w", ErrToken, brief(err))
	}
	more, err := s.personOf(c)
	if err != nil {
		return fmt.Errorf("%w: userinfo: %w", ErrToken, brief(err))
	}
	if more.subject != who.subject {
		return fmt.Errorf("%w: userinfo is of somebody else", ErrToken)
	}
	who.add(more)
	return nil
}

// checkTimes refuses a token that has expired, or was made at another time than now. A
// logout token need not say when it expires.
func (s *SignIn) checkTimes(token *oidc.IDToken, c claims) error {
	now := s.Now()
	notBefore, err := c.seconds("nbf")
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrToken, err)
	case notBefore > float64(now.Add(leeway).Unix()):
		return fmt.Errorf("%w: it is not valid yet (nbf)", ErrToken)
	case !token.Expiry.IsZero() && !now.Add(-leeway).Before(token.Expiry):
		return fmt.Errorf("%w: it has expired", ErrToken)
	case token.IssuedAt.After(now.Add(leeway)), token.IssuedAt.Before(now.Add(-tokenAge - leeway)):
		return fmt.Errorf("%w: it was not made just now (iat)", ErrToken)
	}
	return nil
}

func (s *SignIn) sessionOf(p *person) (*audit.Session, error) {
	principal := s.Label + ":" + p.subject
	if spend.Blank(p.subject) || p.subject != clean(p.subject, maxPersonText) || utf8.RuneCountInString(principal) > spend.MaxPrincipal {
		return nil, fmt.Errorf("%w: its sub makes no principal: it must be printable, and have at most %d characters with %q before it", ErrToken,
			spend.MaxPrincipal, s.Label+":")
	}
	session := &audit.Session{
		Subject: audit.Subject{Issuer: s.Issuer, Subject: p.subject, Session: p.session}, Name: clean(p.name, maxPersonText),
		Email: clean(p.email, maxEmail),
	}
	if session.Name == "" {
		session.Name = clean(p.username, maxPersonText)
	}
	s.noteGroups(principal, p.groups)
	grants, err := grantsOf(s.Roles, p.groups)
	switch {
	case p.groups == nil && p.leftOut:
		err = ErrOverage
	case p.unverified && session.Email != "":
		grants, err = spend.Grants{}, ErrUnverified
	}
	grants.Principal = principal
	// The owner of a key identifies the person behind it, usually by an e-mail address (S62).
	if grants.Owner = clean(p.email, spend.MaxPrincipal); grants.Owner == "" {
		grants.Owner = principal
	}
	session.Grants = grants
	return session, err
}

// noteGroups logs which groups the provider names, and which of these have an entry among the roles.
func (s *SignIn) noteGroups(principal string, groups []string) {
	var known []string
	for _, group := range groups {
		if slices.ContainsFunc(s.Roles, func(r Role) bool { return r.Group == group }) {
			known = append(known, group)
		}
	}
	s.Logger.Info("groups of a sign-in", "principal", principal, "claim", s.GroupsClaim, "named", len(groups), "groups", listed(groups),
		"with_a_role", listed(known))
}

// listed returns the first of a list of groups, as the log has them.
func listed(groups []string) []string {
	list := make([]string, min(len(groups), maxGroupsLogged))
	for i := range list {
		list[i] = clean(groups[i], maxPersonText)
	}
	return list
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
	c, err := claimsOf(token)
	if err != nil {
		return audit.Logout{}, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	session, err := c.text("sid")
	if err != nil {
		return audit.Logout{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	id, err := c.text("jti")
	_, nonce := c["nonce"]
	switch event := c.inside("events")[logoutEvent]; {
	case err != nil:
		return audit.Logout{}, fmt.Errorf("%w: %w", ErrToken, err)
	case event.Kind() != '{':
		return audit.Logout{}, fmt.Errorf("%w: it is no logout token", ErrToken)
	case nonce:
		return audit.Logout{}, fmt.Errorf("%w: a logout token has no nonce", ErrToken)
	case id == "":
		return audit.Logout{}, fmt.Errorf("%w: it has no jti", ErrToken)
	case token.Subject == "" && session == "":
		return audit.Logout{}, fmt.Errorf("%w: it has neither sub nor sid", ErrToken)
	}
	return audit.Logout{
		Subject: audit.Subject{Issuer: s.Issuer, Subject: token.Subject, Session: session}, Token: spend.HashKey(s.Issuer + "\n" + id),
	}, s.checkTimes(token, c)
}

// clean returns a text that is fit for people to look at: printable, and not too long.
func clean(s string, most int) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || spend.Unseen(r) {
			return -1
		}
		return r
	}, s))
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most])
	}
	return s
}
