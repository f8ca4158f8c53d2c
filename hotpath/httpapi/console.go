package httpapi

import (
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"spendgate/config"
	"spendgate/hotpath/console"
	"spendgate/hotpath/wire"
)

var (
	errNotLocal = &refusal{403, codeForbidden, "a link signs in on the machine of the node only, at its loopback address"}
	errLink     = &refusal{401, codeUnauthorized, console.ErrLink.Error() + "; sign in with a key, or start the node again for another link"}
)

// consolePages are the console's files, compressed when one is first asked for.
type consolePages struct {
	*console.Console
	compress func() map[string]*specification
}

func newConsolePages(c *console.Console) *consolePages {
	return &consolePages{c, sync.OnceValue(func() map[string]*specification {
		pages := make(map[string]*specification)
		for _, f := range c.Files() {
			pages[f.Path] = newSpecification(f.ContentType, f.Body)
		}
		return pages
	})}
}

// routeConsole adds the console's paths, which are not part of the interface.
func (a *API) routeConsole(r *router.Router, c *console.Console) {
	pages := newConsolePages(c)
	a.at(r, console.Prefix, endpoint{method: "GET", free: true, serve: pages.serve})
	a.at(r, console.Prefix+"assets/{file:*}", endpoint{method: "GET", free: true, serve: pages.serve})
	absent := r.NotFound
	r.NotFound = func(ctx *fasthttp.RequestCtx) { // where the router has no place beside the prefix
		if string(ctx.Path()) != strings.TrimSuffix(console.Prefix, "/") || !ctx.IsGet() && !ctx.IsHead() {
			absent(ctx)
			return
		}
		secureConsole(exchangeOf(ctx))
		ctx.Response.Header.Set(fasthttp.HeaderLocation, console.Prefix)
		ctx.SetStatusCode(fasthttp.StatusPermanentRedirect)
	}
}

// serve answers with the file at the path of the request.
func (p *consolePages) serve(x *exchange) error {
	path := string(x.ctx.Path())
	f, found := p.Find(path)
	if !found {
		return errPathNotFound
	}
	secureConsole(x)
	if err := x.answerDocument(p.compress()[path]); err != nil {
		return err
	}
	if f.Lasting {
		x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "public, max-age=31536000, immutable")
	}
	return nil
}

// secureConsole limits what a browser does with a page, whatever the page contains.
func secureConsole(x *exchange) {
	h := &x.ctx.Response.Header
	h.Set(fasthttp.HeaderContentSecurityPolicy, console.Policy)
	h.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	h.Set(fasthttp.HeaderReferrerPolicy, "no-referrer")
	h.Set(fasthttp.HeaderXFrameOptions, "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// signInByLink returns the handler that takes the code of a link.
func (a *API) signInByLink(links *console.Links) func(*exchange) error {
	return func(x *exchange) error {
		if !local(x) {
			return errNotLocal
		}
		var code string
		err := x.decode(func(r *reader) {
			for r.next() {
				if r.name != "code" {
					r.unknown()
					continue
				}
				code = r.text()
			}
		})
		if err != nil {
			return err
		}
		keys, err := links.Use(x.context(), code, time.Now())
		if err != nil {
			return err
		}
		x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
		return respond(x, 200, wire.LinkedKeys{APIKey: keys.API, AdminKey: keys.Admin})
	}
}

// local reports whether a request comes from the node's machine, by no proxy, from a page
// of the node: neither another site nor a name that was made to lead here.
func local(x *exchange) bool {
	h := &x.ctx.Request.Header
	if !addressOf(x.ctx.RemoteAddr()).IsLoopback() || len(h.PeekAll(headerForwarded))+len(h.PeekAll("Forwarded")) > 0 {
		return false
	}
	host := string(h.Host())
	if u, err := url.Parse("http://" + host); err != nil || !config.IsLoopback(u.Hostname()) {
		return false
	}
	origin := string(h.Peek(fasthttp.HeaderOrigin))
	return origin == "" || origin == "http://"+host
}
