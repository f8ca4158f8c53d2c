package apicmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
	"spendgate/hotpath/client"
	"spendgate/hotpath/signin"
)

func loginCommand() cli.Command {
	return cli.Command{
		Name: "login", Summary: "sign in at the service's provider, in a browser on this computer", Setup: login,
		Details: `Prints the address of a page to open in a browser on this computer, and waits for the sign-in at the service's
OpenID Connect provider. The session is kept in spendgate/session.json in the user's folder of settings, for nobody
else to read; commands use it where no API key is given. It ends after 8 hours, after 30 minutes without a command,
with spendgate logout or another login, and whenever the service ends it. Where the browser is on another computer, use an API key.`,
	}
}

func logoutCommand() cli.Command {
	return cli.Command{
		Name: "logout", Summary: "end the session of spendgate login", Details: "The session is over on every node then.", Setup: logout,
	}
}

func urlFlag(flags *flag.FlagSet) *string {
	return flags.String("url", "", "the `URL` of the service; SPENDGATE_API_URL without it")
}

// service returns the address of the service, without a path.
func service(p cli.Process, given string) (string, error) {
	c, err := config.LoadClient(p.Environ)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(cmp.Or(given, c.APIURL), "/"), nil
}

func login(flags *flag.FlagSet) cli.Action {
	given := urlFlag(flags)
	within := flags.Duration("within", signin.AttemptFor, "wait at most for this `DURATION`")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		base, err := service(p, *given)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, *within)
		defer cancel()
		origin, err := consoleOf(ctx, p, base)
		if err != nil {
			return err
		}
		session, err := signInByLoopback(ctx, p, base, origin)
		if err != nil {
			return err
		}
		before, _ := p.KeptSession() // an unreadable one is replaced
		s := cli.SignedIn{URL: base, Origin: origin, Session: session}
		if err := p.WriteSession(s); err != nil {
			return err
		}
		if before != nil {
			endSession(ctx, p, before)
		}
		api, err := s.Client(p)
		if err != nil {
			return err
		}
		self, err := api.Self(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "signed in as %s\n", spend.Printable(self.Principal))
		return err
	}
}

// endSession ends a session that was replaced. If its service does not answer, the session ends later by
// itself.
func endSession(ctx context.Context, p cli.Process, s *cli.SignedIn) {
	api, err := s.Client(p)
	if err == nil {
		err = api.SignOut(ctx)
	}
	if err != nil {
		//nolint:errcheck // the list of sessions shows it, too
		fmt.Fprintf(p.Stderr, "the session before at %s was not ended, and lasts for 30 minutes more: %v\n", spend.Printable(s.URL), err)
	}
}

// consoleOf returns the origin of the service's console, on which people sign in. It fails if secrets
// would go over the network without https.
func consoleOf(ctx context.Context, p cli.Process, base string) (origin string, err error) {
	var said struct {
		SignIn *string `json:"sign_in"`
		Origin string  `json:"origin"`
	}
	if err := exchange(ctx, p, "GET", base+"/console/session", nil, &said); err != nil {
		return "", err
	}
	if said.SignIn == nil {
		return "", errors.New("people do not sign in to this service: use an API key")
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !config.IsLoopback(u.Hostname())) {
		return "", fmt.Errorf("%s is not https: a session would be for everybody on the way", spend.Printable(base))
	}
	// The server at this address must not send people to sign in at another one, and get that session.
	if !strings.EqualFold(u.Scheme+"://"+u.Host, said.Origin) {
		return "", fmt.Errorf("people sign in at %s: if that is your service, name it with --url", spend.Printable(said.Origin))
	}
	return said.Origin, nil
}

// signInByLoopback lets a person sign in with a browser, and waits on a port of this computer for the
// code, which is useless without the verifier.
func signInByLoopback(ctx context.Context, p cli.Process, base, origin string) (session string, err error) {
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot wait for the browser: %w", err)
	}
	verifier := rand.Text() + rand.Text()
	of := signin.Loopback{Challenge: sha256.Sum256([]byte(verifier))}
	codes := make(chan string)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: codeHandler(ctx, of.State(), codes)}
	go server.Serve(l) //nolint:errcheck // ends with Shutdown
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for the browser's answer
		defer cancel()
		_ = errors.Join(server.Shutdown(ctx), server.Close()) // after a second, nobody waits for an answer any more
	}()
	port := l.Addr().(*net.TCPAddr).Port
	page := fmt.Sprintf("%s/console/sign-in?port=%d&challenge=%s", spend.Printable(origin), port, of.State())
	_, err = fmt.Fprintf(p.Stderr, "open in a browser on this computer, and compare the code %s:\n\n  %s\n\n", of.Shown(), page)
	if err != nil {
		return "", err
	}
	for {
		select {
		case <-ctx.Done():
			return "", errors.New("nobody signed in")
		case code := <-codes:
			var got struct{ Session string }
			err := exchange(ctx, p, "POST", base+"/console/take-over", map[string]string{"code": code, "verifier": verifier}, &got)
			if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status < 500 {
				fmt.Fprintln(p.Stderr, "a code that is not of this sign-in was refused; still waiting") //nolint:errcheck // who does not see it waits
				continue
			}
			if err == nil && got.Session == "" {
				err = errors.New("the service's answer has no session")
			}
			return got.Session, err
		}
	}
}

// codeHandler passes on the code that a browser brings together with the state. Any page can send
// requests to it, so a request with another state is refused without asking anybody.
func codeHandler(ctx context.Context, state string, codes chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'")
		code := r.URL.Query().Get("code")
		if subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("state")), []byte(state)) != 1 {
			code = ""
		}
		if r.Method != http.MethodGet || r.URL.Path != "/" || code == "" || len(code) > 4096 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		select {
		case codes <- code:
			_, _ = io.WriteString(w, "<!doctype html><html lang=\"en\"><title>spendgate</title>"+
				"<p>Go on at the command line; this page can be closed.</p>\n")
		case <-ctx.Done():
		case <-r.Context().Done():
		}
	})
}

// exchange sends JSON to the console's paths, which take no key.
func exchange(ctx context.Context, p cli.Process, method, address string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return fmt.Errorf("cannot make a request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "spendgate/"+p.Version)
	c := http.Client{Timeout: cli.APITimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.Do(r)
	if err != nil {
		return fmt.Errorf("no answer from the service: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("the service's answer broke off: %w", err)
	}
	if answer.StatusCode == http.StatusNotFound {
		return errors.New("the service has no console: people do not sign in to it; use an API key")
	}
	if answer.StatusCode != http.StatusOK {
		return &client.Error{
			Status: answer.StatusCode, Code: "sign_in", Message: "the service refuses", RequestID: answer.Header.Get("X-Request-ID"),
		}
	}
	return json.Unmarshal(text, into)
}

func logout(flags *flag.FlagSet) cli.Action {
	given := urlFlag(flags)
	return func(ctx context.Context, p cli.Process, _ []string) error {
		base, err := service(p, *given)
		if err != nil {
			return err
		}
		s, err := p.ReadSession(base)
		if err != nil {
			return err
		}
		if s == nil {
			return errors.New("nobody is signed in to " + spend.Printable(base))
		}
		api, err := s.Client(p)
		if err != nil {
			return err
		}
		if err := api.SignOut(ctx); err != nil {
			return err
		}
		if err := p.ForgetSession(); err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.Stdout, "signed out")
		return err
	}
}
