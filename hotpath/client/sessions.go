package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"spendgate/hotpath/wire"
)

// Session is the session of a person who signed in (S78), with the rights that their groups give.
type Session struct {
	wire.Session
	Raw
}

// AllSessions reads the sessions in force, newest first. It needs the admin key. An error
// is the last that it yields.
func (c *Client) AllSessions(ctx context.Context) iter.Seq2[Session, error] {
	return pages[Session](ctx, c, asAdmin(wholePages("/v1/sessions", struct{}{})))
}

// EndSession ends a session on every node. It needs the admin key. The request is not repeated when it
// may have been carried out.
func (c *Client) EndSession(ctx context.Context, sessionID string) error {
	_, _, err := c.send(ctx, request{
		method: http.MethodDelete, path: "/v1/sessions/" + url.PathEscape(sessionID), status: http.StatusNoContent, admin: true,
	})
	return err
}

// SignOut ends the client's own session, on every node when it returns without an error.
func (c *Client) SignOut(ctx context.Context) error {
	_, _, err := c.send(ctx, request{method: http.MethodPost, path: "/console/sign-out", status: http.StatusNoContent, repeatable: true})
	return err
}
