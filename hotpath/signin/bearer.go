package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Who returns who has a token, and until when it is valid. ErrToken refuses the token; with any other error it is not known.
func (b *Bearer) Who(ctx context.Context, raw string) (who string, until time.Time, err error) {
	leave, err := enter(ctx, b.issuer.tokens)
	if err != nil {
		return "", time.Time{}, err
	}
	defer leave()
	p, err := b.issuer.find(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	token, err := p.logouts.Verify(ctx, raw)
	if err != nil {
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
