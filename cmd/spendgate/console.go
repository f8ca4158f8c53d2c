package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/config"
	"spendgate/hotpath"
	"spendgate/hotpath/console"
	"spendgate/hotpath/signin"
)

// consoleKeyFile has the key of people who sign in to the console by a link.
const consoleKeyFile = "console.key"

// consoleScopes are the scopes of a person who writes policies, decides and reads. They do not include
// making checks: nobody may decide about a check of their own.
const consoleScopes = spend.PoliciesRead | spend.PoliciesWrite | spend.BacktestsWrite | spend.ApprovalsRead | spend.ApprovalsDecide |
	spend.ChecksRead | spend.BudgetsRead | spend.EventsRead

// newConsole returns the console, or nil if the settings turn it off.
func newConsole(c config.Config, links *console.Links) *console.Console {
	if !c.Console {
		return nil
	}
	return console.New(links)
}

// newSignIn returns the client of the provider with which people sign in, or nil if there is none.
// It sends no request yet.
func newSignIn(o *config.OIDC, log *slog.Logger) (*signin.SignIn, error) {
	if o == nil {
		return nil, nil
	}
	roles, err := signin.ParseRoles(o.Roles)
	if err != nil {
		return nil, fmt.Errorf("SPENDGATE_OIDC_ROLES: %w", err)
	}
	return signin.New(signin.Options{
		Label: o.Label, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: string(o.ClientSecret), RedirectURL: o.RedirectURL, Roles: roles,
		GroupsClaim: o.GroupsClaim, EmailClaim: o.EmailClaim, NameClaim: o.NameClaim, Logger: log, Now: time.Now,
	}), nil
}

// consoleKeys returns the keys that a link signs in with. The API key is made the first time.
func (n *node) consoleKeys(ctx context.Context, c config.Config) (console.Keys, error) {
	path := filepath.Join(c.DataDir, consoleKeyFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var key string
		key, _, err = n.authorizer.CreateKey(ctx, audit.Actor{Principal: "spendgate dev"}, hotpath.NewKey{
			Name: "console", RateLimitRPM: sampleKeyRPM, Grants: spend.Grants{Scopes: consoleScopes, Principal: "console"},
		})
		if err != nil {
			return console.Keys{}, err
		}
		content, err = []byte(key+"\n"), os.WriteFile(path, []byte(key+"\n"), 0o600)
	}
	if err != nil {
		return console.Keys{}, fmt.Errorf("cannot keep the console's key: %w", err)
	}
	return console.Keys{API: strings.TrimSpace(string(content)), Admin: string(c.AdminKeys[0])}, nil
}

// inviteToConsole prints the console's address and a link that signs in.
func (n *node) inviteToConsole(w io.Writer) error {
	if n.links == nil {
		return nil
	}
	address := baseURL(n.listener.Addr()) + console.Prefix
	_, err := fmt.Fprintf(w, `
Console: %[1]s
  Sign in, once and within 15 minutes, on this machine: %[1]s#/sign-in/%[2]s
`, address, n.links.Make(time.Now()))
	return err
}
