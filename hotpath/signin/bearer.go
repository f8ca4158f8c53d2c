package signin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"spendgate/audit/spend"
)

// Bearer proves the access tokens that an issuer made for one resource (RFC 9068).
type Bearer struct {
	issuer *SignIn
	claim  string
}

// NewBearer makes a Bearer. It asks nobody. The claim has the exact name of who has the token.
func NewBearer(issuer, audience, claim string, log *slog.Logger, now func() time.Time) *Bearer {
	return &Bearer{New(Options{Issuer: issuer, ClientID: audience, Logger: log, Now: now}), claim}
}

// Claims reports whether a token says that it is of this issuer. That is not proved.
func (b *Bearer) Claims(raw string) bool {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return false
	}
	c, err := partOf(parts[1])
	if err != nil {
		return false
	}
	issuer, err := c.text("iss")
	return err == nil && issuer == b.issuer.Issuer
}

// partOf reads the header or the claims of a token.
func partOf(part string) (claims, error) {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return nil, err
	}
	return readClaims(text)
}

// checkType refuses a token whose header says that it is no access token. Many issuers call theirs plainly JWT, or nothing.
func checkType(raw string) error {
	header, _, _ := strings.Cut(raw, ".")
	c, err := partOf(header)
	if err != nil {
		return err
	}
	switch kind, err := c.text("typ"); strings.TrimPrefix(strings.ToLower(kind), "application/") {
	case "", "jwt", "at+jwt":
		return err
	default:
		return errors.New("its typ is not that of an access token")
	}
}

// Who returns who has a token, and until when it is valid. ErrToken refuses the token; with any other error it is not known.
func (b *Bearer) Who(ctx context.Context, raw string) (who string, until time.Time, err error) {
	if err := checkType(raw); err != nil {
		return "", time.Time{}, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	leave, err := enter(ctx, b.issuer.tokens)
	if err != nil {
		return "", time.Time{}, err
	}
	defer leave()
	p, err := b.issuer.find(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	unread := new(error)
	token, err := p.logouts.Verify(context.WithValue(ctx, unreadKey{}, unread), raw)
	switch {
	case *unread != nil:
		return "", time.Time{}, fmt.Errorf("%w: its keys: %w", ErrProvider, brief(*unread))
	case err != nil:
		return "", time.Time{}, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	who, err = b.holder(token)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("%w: %w", ErrToken, brief(err))
	}
	return who, token.Expiry, nil
}

// holder returns who has a token whose signature, issuer and audience are right.
func (b *Bearer) holder(token *oidc.IDToken) (string, error) {
	c, err := claimsOf(token)
	if err != nil {
		return "", err
	}
	now := b.issuer.Now()
	notBefore, err := c.seconds("nbf")
	switch {
	case err != nil:
		return "", err
	case token.Expiry.IsZero():
		return "", errors.New("it has no exp")
	case !now.Add(-leeway).Before(token.Expiry):
		return "", errors.New("it has expired")
	case notBefore > float64(now.Add(leeway).Unix()):
		return "", errors.New("it is not valid yet (nbf)")
	}
	who, err := c.text(b.claim)
	switch {
	case err != nil:
		return "", err
	case spend.Blank(who):
		return "", fmt.Errorf("it has no %s", b.claim)
	}
	if fault := spend.VisibleFault(who); fault != "" {
		return "", fmt.Errorf("its %s %s", b.claim, fault)
	}
	return who, nil
}
