package httpapi

import (
	"errors"
	"html"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/console"
	"spendgate/hotpath/signin"
	"spendgate/hotpath/wire"
)

// attemptCookie has the state that a browser must bring back from the provider.
const attemptCookie = "__Host-spendgate-sign-in"

var (
	errAttempt = &refusal{400, codeBadRequest, "the sign-in was not begun in this browser, or more than 10 minutes ago; sign in again"}
	errRefused = &refusal{400, codeBadRequest, "the provider did not sign you in; sign in again"}
	errToken   = &refusal{400, codeBadRequest, "the provider's response is not accepted; see the service's log for this request"}
	errNoRole  = &refusal{403, codeForbidden, "none of your groups has a role here; an admin gives one in SPENDGATE_OIDC_ROLES"}
	errOverage = &refusal{403, codeForbidden, "the provider left out your groups, which are too many (a group overage, _claim_names); " +
		"have it send fewer, such as those of this application"}
	errUnverified = &refusal{403, codeForbidden, "the provider says that your e-mail address is not verified (email_verified); " +
		"verify it there and sign in again"}
	errProvider  = &refusal{502, codeInternal, "the sign-in provider does not answer; try again, or use an API key"}
	errSignedOut = &refusal{400, codeBadRequest, "you were signed out, or your rights changed, while you signed in; sign in again"}
	errReplayed  = &refusal{400, codeBadRequest, "the logout token was used"}
	errForm      = &refusal{400, codeBadRequest, "the body must be a form with one logout_token"}
)

// provider is the client of the provider, and the origin of the console.
type provider struct {
	*signin.SignIn
	callback string // the path of the redirect URL
	origin   string
}

func newProvider(s *signin.SignIn) *provider {
	if s == nil {
		return nil
	}
	u, err := url.Parse(s.RedirectURL)
	if err != nil {
		panic("BUG: the redirect URL was not looked at: " + err.Error())
	}
	return &provider{SignIn: s, callback: u.Path, origin: u.Scheme + "://" + u.Host}
}

// routeSignIn adds the paths by which people sign in and out (S78), and answers whether
// they can.
func (a *API) routeSignIn(r *router.Router, links *console.Links) {
	a.at(r, console.Prefix+"session", endpoint{method: "GET", free: true, serve: a.getConsoleSession})
	var signIn []endpoint
	if a.signIn != nil {
		signIn = append(signIn, endpoint{method: "GET", free: true, serve: a.beginSignIn})
		a.at(r, a.signIn.callback, endpoint{method: "GET", free: true, serve: a.endSignIn})
		a.at(r, console.Prefix+"take-over", endpoint{method: "POST", free: true, serve: a.takeOver})
		a.at(r, console.Prefix+"sign-out", endpoint{method: "POST", free: true, serve: a.signOut})
		a.at(r, console.Prefix+"backchannel-logout", endpoint{method: "POST", free: true, serve: a.logout})
	}
	if links != nil {
		signIn = append(signIn, endpoint{method: "POST", free: true, serve: a.signInByLink(links)})
	}
	if signIn != nil {
		a.at(r, console.Prefix+"sign-in", signIn...)
	}
}

// getConsoleSession answers whether people sign in, with whom, and whether this browser has
// a session, which may have ended.
func (a *API) getConsoleSession(x *exchange) error {
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	var shown wire.ConsoleSession
	if a.signIn != nil {
		shown = wire.ConsoleSession{SignIn: &a.signIn.Label, Origin: a.signIn.origin, Session: x.hasSession()}
	}
	return respond(x, 200, shown)
}

// setCookie sets one that lasts for so many seconds; 0 deletes it.
func (x *exchange) setCookie(name, value string, seconds int) {
	text := name + "=" + value + "; Path=/; Max-Age=" + strconv.Itoa(seconds) + "; HttpOnly; Secure; SameSite=Lax"
	x.ctx.Response.Header.Add(fasthttp.HeaderSetCookie, text)
}

// beginSignIn sends a browser to the provider; for a command line once the person has seen
// on a page that it is theirs.
func (a *API) beginSignIn(x *exchange) error {
	args := x.ctx.QueryArgs()
	var of *signin.Loopback
	if args.Has("port") || args.Has("challenge") {
		var err error
		if of, err = signin.ParseLoopback(string(args.Peek("port")), string(args.Peek("challenge"))); err != nil {
			return a.failPage(x, err)
		}
	}
	begun, err := a.Authorizer.SignInBegins(x.context())
	if err != nil {
		return a.failPage(x, err)
	}
	to, cookie, err := a.signIn.Begin(x.context(), begun, of)
	if err != nil {
		return a.failPage(x, err)
	}
	x.setCookie(attemptCookie, cookie, int(signin.AttemptFor.Seconds()))
	if of != nil {
		x.page("Sign in", "<p>A command line on this computer asks to sign in as you. "+
			"Go on only if you have just begun that, and it shows this code: <b>"+
			of.Shown()+"</b></p><p><a href=\""+html.EscapeString(to)+"\">Sign in</a></p>")
		return nil
	}
	x.seeOther(to)
	return nil
}

// page answers with one that has a heading and a text of HTML.
func (x *exchange) page(title, text string) {
	secureConsole(x)
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	x.ctx.SetContentType("text/html; charset=utf-8")
	x.ctx.SetBodyString("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>" + title + "</title>" +
		"<h1>" + title + "</h1>" + text + "\n")
}

func (x *exchange) seeOther(to string) {
	secureConsole(x)
	h := &x.ctx.Response.Header
	h.Set(fasthttp.HeaderCacheControl, "no-store")
	h.Set(fasthttp.HeaderLocation, to)
	x.ctx.SetStatusCode(fasthttp.StatusSeeOther)
}

// endSignIn takes a browser back from the provider. The attempt is over, however it ends.
func (a *API) endSignIn(x *exchange) error {
	args := x.ctx.QueryArgs()
	cookie := string(x.ctx.Request.Header.Cookie(attemptCookie))
	x.setCookie(attemptCookie, "", 0)
	of := a.signIn.Loopback(cookie)
	session, err := a.signIn.End(x.context(), cookie, signin.Answer{
		State: string(args.Peek("state")), Code: string(args.Peek("code")), Issuer: string(args.Peek("iss")), Error: string(args.Peek("error")),
	})
	if errors.Is(err, signin.ErrNoRole) && session != nil {
		// The rights that the groups gave before end, since they give none now.
		if ended := a.Authorizer.EndSessions(x.context(), a.actor(x), session); ended != nil {
			err = ended
		}
	}
	if err != nil {
		return a.failPage(x, err)
	}
	token, err := a.Authorizer.SignIn(x.context(), a.actor(x), session)
	if err != nil {
		return a.failPage(x, err)
	}
	if of != nil {
		to, err := a.signIn.HandOver(of, token)
		if err != nil {
			return a.failPage(x, err)
		}
		x.seeOther(to)
		return nil
	}
	x.setCookie(sessionCookie, token, int(audit.SessionFor.Seconds()))
	x.seeOther(console.Prefix)
	return nil
}

// takeOver answers a command line with the session that was begun for it. No cookie is set:
// another site could have a browser send this.
func (a *API) takeOver(x *exchange) error {
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	var code, verifier string
	err := x.decode(func(r *reader) {
		for r.next() {
			switch r.name {
			case "code":
				code = r.text()
			case "verifier":
				verifier = r.text()
			default:
				r.unknown()
			}
		}
	})
	if err != nil {
		return err
	}
	token, err := a.signIn.TakeOver(code, verifier)
	if err == nil {
		token, err = a.Authorizer.TakeOver(x.context(), token)
	}
	if err != nil {
		if refusalOf(err).status < 500 {
			a.noteSignIn(x, err)
		}
		return err
	}
	return respond(x, 200, wire.TakenOver{Session: token})
}

// failPage answers with an error that a person sees.
func (a *API) failPage(x *exchange, err error) error {
	a.fail(x, err)
	if x.refusal.status < 500 {
		a.noteSignIn(x, err)
	}
	x.page("Not signed in", "<p>"+html.EscapeString(x.refusal.message)+"</p><p>"+x.id+"</p><p><a href=\""+console.Prefix+"\">Back</a></p>")
	return nil
}

// noteSignIn counts and logs a sign-in that failed.
func (a *API) noteSignIn(x *exchange, err error) {
	a.metrics.signIns.Inc()
	if attrs, due := a.refusedLine(x, &a.signIns, err); due {
		a.Logger.Warn("sign-in failed", attrs...)
	}
}

// refusedLine returns the attributes of a line about refusals that anybody can cause: one line a
// second, with the number that it stands for.
func (a *API) refusedLine(x *exchange, t *tally, err error) (attrs []any, due bool) {
	requests, due := t.add(time.Now())
	if !due {
		return nil, false
	}
	return []any{
		slog.Int64("requests", requests), slog.String("request_id", x.id),
		slog.String("client", a.clientAddress(x)), slog.String("error", err.Error()),
	}, true
}

// signOut ends the session of the cookie, and deletes the cookie. It succeeds without a session.
func (a *API) signOut(x *exchange) error {
	c, err := a.sessionOf(x)
	if err == nil {
		err = a.Authorizer.SignOut(x.context(), a.actor(x), c)
	}
	if err != nil && !errors.Is(err, hotpath.ErrSessionEnded) {
		return err
	}
	x.setCookie(sessionCookie, "", 0)
	return x.answerNothing()
}

// logout takes a provider's logout token (OpenID Connect Back-Channel Logout 1.0).
func (a *API) logout(x *exchange) error {
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	if kind, _, _ := strings.Cut(string(x.ctx.Request.Header.ContentType()), ";"); strings.TrimSpace(kind) !=
		"application/x-www-form-urlencoded" {
		return errForm
	}
	form, err := url.ParseQuery(string(x.body))
	if err != nil || len(form["logout_token"]) != 1 {
		return errForm
	}
	l, err := a.signIn.Logout(x.context(), form.Get("logout_token"))
	if err == nil {
		err = a.Authorizer.EndLoggedOut(x.context(), a.actor(x), l)
	}
	if err != nil {
		if refusalOf(err).status < 500 {
			if attrs, due := a.refusedLine(x, &a.logouts, err); due {
				a.Logger.Warn("logout token refused", attrs...)
			}
		}
		return err
	}
	x.ctx.SetStatusCode(fasthttp.StatusOK)
	return nil
}
