package httpapi

import (
	"time"

	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// sessionCookie has a session's token (S78). Browsers keep __Host- cookies only when they
// are Secure, of this host alone and of all its paths.
const sessionCookie = "__Host-spendgate"

var (
	errForeign = &refusal{
		403, codeForbidden, "a write with a session must come from this origin: it needs Sec-Fetch-Site: same-origin or the Origin of the " +
			"console",
	}
	errSessionNotFound = &refusal{404, "session_not_found", "there is no such session in force"}
)

const headerFetchSite = "Sec-Fetch-Site"

// callerOf returns the caller of the API key in X-API-Key; without the header, of the session (S78);
// else nobody. A header that is present and empty is a wrong key, not a missing one.
func (a *API) callerOf(x *exchange) (hotpath.Caller, error) {
	h := &x.ctx.Request.Header
	if a.signIn == nil || len(h.PeekCanonical(headerAPIKey)) > 0 || !x.hasSession() || len(h.PeekAll(string(headerAPIKey))) > 0 {
		return x.sender(), nil
	}
	return a.sessionOf(x)
}

// hasSession reports whether the request has the cookie of a session, which may be over.
func (x *exchange) hasSession() bool { return len(x.ctx.Request.Header.Cookie(sessionCookie)) > 0 }

// sessionOf returns the caller of the cookie's session.
func (a *API) sessionOf(x *exchange) (hotpath.Caller, error) {
	if err := a.sameOrigin(x); err != nil {
		return hotpath.Caller{}, err
	}
	c, err := a.Authorizer.SessionCaller(x.context(), x.ctx.Request.Header.Cookie(sessionCookie))
	x.caller = c
	return c, err
}

// sameOrigin refuses a write that another site had the browser send. Both headers must show this
// origin if both are present, and one must be present.
func (a *API) sameOrigin(x *exchange) error {
	h := &x.ctx.Request.Header
	if x.ctx.IsGet() || x.ctx.IsHead() {
		return nil
	}
	said := false
	for _, c := range []struct{ name, want string }{{headerFetchSite, "same-origin"}, {fasthttp.HeaderOrigin, a.signIn.origin}} {
		values := h.PeekAll(c.name) // which the next call overwrites
		if len(values) > 1 || len(values) == 1 && string(values[0]) != c.want {
			return errForeign
		}
		said = said || len(values) == 1
	}
	if !said {
		return errForeign
	}
	return nil
}

// known is the caller as far as it was looked at.
func (x *exchange) known() hotpath.Caller {
	if x.caller.HasSession() {
		return x.caller
	}
	return x.sender()
}

// getSessions answers GET /v1/sessions.
func (a *API) getSessions(x *exchange) error {
	filters := sumOf("sessions 1", "")
	limit, before, err := queryBefore(x.query(), filters)
	if err != nil {
		return err
	}
	sessions, more, err := a.Store.ListSessions(x.readContext(), before, limit)
	if err != nil {
		return err
	}
	return listing[audit.Session, wire.Session]{
		page: sessions, record: sessionOf, position: func(s *audit.Session) string { return string(s.ID[:]) },
		more: more, filters: filters,
	}.answer(x)
}

// deleteSession answers DELETE /v1/sessions/{session_id}.
func (a *API) deleteSession(x *exchange, id spend.ID) error {
	if err := a.Authorizer.EndSession(x.context(), a.adminActor(x), id); err != nil {
		return err
	}
	return x.answerNothing()
}

func sessionOf(s *audit.Session) wire.Session {
	return wire.Session{
		SessionID: s.ID.Text(spend.PrefixSession), Name: s.Name, Email: s.Email, CreatedAt: wire.Timestamp{Time: s.CreatedAt},
		LastUsedAt: wire.Timestamp{Time: s.LastUsedAt}, EndsAt: wire.Timestamp{Time: endsAt(s)}, Grants: grantsOf(&s.Grants),
	}
}

// endsAt is when a session ends that is not used any more.
func endsAt(s *audit.Session) time.Time {
	if idle := s.LastUsedAt.Add(s.Idle); idle.Before(s.ExpiresAt) {
		return idle
	}
	return s.ExpiresAt
}

// ownSessionOf returns a session like an API key with its rights.
func ownSessionOf(s *audit.Session, rpm int) wire.Key {
	grants := s.Grants
	grants.ExpiresAt = s.ExpiresAt
	return wire.Key{
		KeyID: s.ID.Text(spend.PrefixSession), Name: s.Name, Email: s.Email, RateLimitRPM: rpm, Active: true,
		CreatedAt: wire.Timestamp{Time: s.CreatedAt}, LastUsedAt: &wire.Timestamp{Time: s.LastUsedAt}, Grants: grantsOf(&grants),
	}
}
