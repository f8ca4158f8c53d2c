package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"spendgate/hotpath/client"
)

// looked is what a server offers now.
type looked struct {
	tools pinned
	name  string // as the server calls itself
}

// lookedAs returns what the gateway says to a server that it can do when it looks at its tools:
// some servers have tools only for agents that can as much.
func lookedAs() map[string]any {
	type none struct{}
	return map[string]any{
		"roots": map[string]bool{"listChanged": true}, "sampling": none{}, "elicitation": map[string]any{"form": none{}, "url": none{}},
	}
}

// look connects to a server, reads its tools and disconnects.
func look(ctx context.Context, u *upstream, environ []string, log *slog.Logger, version string) (looked, error) {
	g := &Gateway{
		file: &File{order: []string{u.name}, Upstreams: map[string]*upstream{u.name: u}}, log: log, version: version, metrics: newMetrics(nil),
	}
	g.stopping, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer g.stop()
	g.dial = func(u *upstream) (conn, error) { return dial(u, environ, log) }
	agent := new(nobody)
	s := newSession(g, agent)
	agent.s = s
	defer s.cancel()
	l := s.links[0]
	c, err := l.connect(encode(map[string]any{
		"protocolVersion": latestVersion, "capabilities": lookedAs(),
		"clientInfo": map[string]string{"name": "spendgate-gateway", "version": version},
	}))
	if err != nil {
		return looked{}, fmt.Errorf("the server %s: %w", u.name, err)
	}
	defer c.close()
	go l.serve(c, func() {})
	tools, err := l.settledTools(ctx)
	if err != nil {
		return looked{}, fmt.Errorf("the server %s: %w", u.name, err)
	}
	var greeting struct {
		ServerInfo struct {
			Name string `json:"name"`
		} `json:"serverInfo"`
	}
	_ = json.Unmarshal(l.first.Result, &greeting, lax()) // one without a name has none
	return looked{tools, greeting.ServerInfo.Name}, nil
}

// settledTools returns the server's tools once it has not changed them for a moment: some
// servers add tools when they know what an agent can do.
func (l *link) settledTools(ctx context.Context) (pinned, error) {
	const moment, rounds = 300 * time.Millisecond, 10
	for round := 1; ; round++ {
		l.mu.Lock()
		before := l.changes
		l.mu.Unlock()
		tools, _, err := l.tools(ctx, 0)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(moment):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		l.mu.Lock()
		settled := l.changes == before
		l.mu.Unlock()
		if settled || round == rounds {
			return tools, nil
		}
	}
}

// nobody is the conn of an agent that is not there. What servers ask it has no answer.
type nobody struct{ s *session }

func (*nobody) read() (message, error) { return message{}, io.EOF }
func (*nobody) close()                 {}

func (n *nobody) write(m message) error {
	if m.isCall() {
		n.s.answerServer(failed(m.ID, &fault{Code: jsonrpc.CodeMethodNotFound, Message: "the gateway only looks at the tools"}))
	}
	return nil
}

// pins returns the lock's entries for tools; an ambiguous definition has none.
func (p pinned) pins() map[string]pin {
	pins := make(map[string]pin, len(p))
	for name, d := range p {
		if d.SHA256 != "" {
			pins[name] = d.pin
		}
	}
	return pins
}

// CheckOptions are what Check uses.
type CheckOptions struct {
	File    *File
	Accept  bool           // write the lock
	Client  *client.Client // of the service, to look at the key; nil where there is none
	Version string
	Environ []string
	Logger  *slog.Logger
	Out     io.Writer
}

// ErrDiffers is what Check fails with when tools differ from the lock.
var ErrDiffers = errors.New("tools differ from the lock: they are off until somebody accepts them")

// Check compares what the servers offer with the lock, names what differs, and renews
// the lock if that is accepted.
func Check(ctx context.Context, o CheckOptions) error {
	old, err := readLock(o.File.path)
	if err != nil {
		return err
	}
	now := &lock{Upstreams: make(map[string]map[string]pin)}
	var lines, left []string // left is what cannot be accepted
	for _, name := range o.File.order {
		u := o.File.Upstreams[name]
		seen, err := look(ctx, u, o.Environ, o.Logger, o.Version)
		if err != nil {
			return err
		}
		now.Upstreams[name] = seen.tools.pins()
		var known map[string]pin
		if old != nil {
			known = old.Upstreams[name]
		}
		lines = append(lines, u.compare(known, seen.tools)...)
		left = append(left, u.compare(now.Upstreams[name], seen.tools)...)
	}
	if old == nil {
		lines = append([]string{"there is no " + lockPath(o.File.path)}, lines...)
	} else {
		for _, name := range slices.Sorted(maps.Keys(old.Upstreams)) {
			if now.Upstreams[name] == nil {
				lines = append(lines, name+": is not in the file any more")
			}
		}
	}
	if o.Client != nil {
		advice, err := keyAdvice(ctx, o.Client)
		if err != nil {
			advice = err.Error()
		}
		if advice != "" {
			if _, err := fmt.Fprintln(o.Out, "note: "+advice); err != nil {
				return err
			}
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(o.Out, line); err != nil {
			return err
		}
	}
	switch {
	case o.Accept:
		if err := now.write(o.File.path); err != nil {
			return fmt.Errorf("cannot write the lock: %w", err)
		}
		if left != nil {
			_, err := fmt.Fprintf(o.Out, "accepted, but for %d that cannot be: %s\n", len(left), lockPath(o.File.path))
			return cmp.Or(err, ErrDiffers)
		}
		_, err := fmt.Fprintln(o.Out, "accepted: "+lockPath(o.File.path))
		return err
	case len(lines) > 0:
		return ErrDiffers
	default:
		_, err := fmt.Fprintln(o.Out, "all tools are as they were accepted")
		return err
	}
}

// compare returns a line for each tool that differs from the lock.
func (u *upstream) compare(known map[string]pin, now pinned) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		d := now[name]
		was, ok := known[name]
		kind := "changes things"
		if d.ReadOnly {
			kind = "read only, it says"
		}
		if u.Tools[name] != nil {
			kind = "mapped"
		}
		switch {
		case d.SHA256 == "":
			lines = append(lines, fmt.Sprintf("%s: %s cannot be accepted: its definition is ambiguous", u.name, name))
		case !ok:
			lines = append(lines, fmt.Sprintf("%s: %s is new (%s)", u.name, name, kind))
		case was.SHA256 != d.SHA256:
			lines = append(lines, fmt.Sprintf("%s: %s changed (%s)", u.name, name, kind))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ok := now[name]; !ok {
			lines = append(lines, fmt.Sprintf("%s: %s is gone", u.name, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Tools)) {
		if _, ok := now[name]; !ok {
			lines = append(lines, fmt.Sprintf("%s: %s is mapped, and the server has no such tool", u.name, name))
		}
	}
	return lines
}

// InitOptions are what Init uses.
type InitOptions struct {
	URL     string
	Command []string
	Path    string // of the file that is made, for the lock beside it; empty if not known
	Version string
	Environ []string
	Logger  *slog.Logger
	Out     io.Writer
}

// Init writes a file for a server: its tools, with what those that look as if they
// moved money could be mapped to, and the lock.
func Init(ctx context.Context, o InitOptions) error {
	u := &upstream{URL: o.URL, Command: o.Command, name: "upstream", folder: filepath.Dir(o.Path)}
	seen, err := look(ctx, u, o.Environ, o.Logger, o.Version)
	if err != nil {
		return err
	}
	u.name = upstreamName(seen.name)
	var b strings.Builder
	b.WriteString(initHead)
	fmt.Fprintf(&b, "upstreams:\n  %s:\n", yamlName(u.name))
	if o.URL != "" {
		fmt.Fprintf(&b, "    url: %s\n    # headers: {Authorization: {file: token}}\n", quote(o.URL))
	} else {
		fmt.Fprintf(&b, "    command: %s\n    # env: {PROVIDER_KEY: {file: provider.key}}\n", encode(o.Command))
	}
	b.WriteString("    tools:")
	mapped := false
	var others strings.Builder
	for _, name := range slices.Sorted(maps.Keys(seen.tools)) {
		d := seen.tools[name]
		if t := guess(name, d); t != "" {
			b.WriteString(t)
			mapped = true
			continue
		}
		kind := "changes things: off by default"
		if d.ReadOnly {
			kind = "read only, it says: passes"
		}
		fmt.Fprintf(&others, "      # %s (%s)\n", strings.Join(strings.Fields(name), " "), kind)
	}
	if !mapped {
		b.WriteString(" {}")
	}
	b.WriteString("\n" + others.String())
	if _, err := io.WriteString(o.Out, b.String()); err != nil {
		return err
	}
	if o.Path == "" {
		return nil
	}
	pins := &lock{Upstreams: map[string]map[string]pin{u.name: seen.tools.pins()}}
	if err := pins.write(o.Path); err != nil {
		return fmt.Errorf("cannot write the lock: %w", err)
	}
	return nil
}

const initHead = `# What stands between agents and the tools that move money. Look at each tool below:
# which arguments are the amount, the currency and the counterparty, and which policy
# decides.
spendgate: {url: "http://127.0.0.1:8080", key_file: gateway.key}
agent_id: my-agent
# listen: 127.0.0.1:8090    # Streamable HTTP at /mcp; without it standard input and output
default: read_only          # tools that are not mapped: pass, deny, read_only
shadow: true                # asks and records, blocks nothing; remove it to enforce
`

// upstreamName makes a name for the file of what a server calls itself.
func upstreamName(name string) string {
	var words []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) {
		words = append(words, word)
	}
	if words == nil {
		return "server"
	}
	return strings.Join(words, "_")
}

// yamlName writes a name that YAML takes for text, whatever it looks like.
func yamlName(name string) string {
	plain := strings.IndexFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }) // no number, no -
	if plain >= 0 || slices.Contains([]string{"null", "true", "false", "y", "n", "yes", "no", "on", "off"}, name) {
		return string(quote(name))
	}
	return name
}

// guess returns a mapping for a tool with an amount among its arguments, empty for
// others.
func guess(name string, d definition) string {
	var definition struct {
		InputSchema struct {
			Properties map[string]jsontext.Value `json:"properties"`
		} `json:"inputSchema"`
	}
	if err := json.Unmarshal(d.text, &definition, lax()); err != nil {
		return ""
	}
	arguments := slices.Sorted(maps.Keys(definition.InputSchema.Properties))
	find := func(words ...string) string {
		for _, word := range words {
			for _, argument := range arguments {
				if strings.Contains(strings.ToLower(argument), word) && !strings.ContainsAny(argument, ".\n") {
					return argument
				}
			}
		}
		return ""
	}
	amount := find("amount", "price", "total", "value")
	if amount == "" || d.ReadOnly {
		return ""
	}
	kind := "spend"
	for _, known := range []string{"refund", "credit", "discount"} {
		if strings.Contains(strings.ToLower(name), known) {
			kind = known
		}
	}
	currency := "{value: USD}    # or {argument: ...}"
	if argument := find("currency"); argument != "" {
		currency = fmt.Sprintf("{argument: %s}", quote(argument))
	}
	to := find("counterparty", "charge", "payment_intent", "payee", "recipient", "customer", "account", "vendor", "merchant", "id")
	var b strings.Builder
	fmt.Fprintf(&b, "\n      %s:\n        policy_id: change-me\n        action_type: %s\n", quote(name), kind)
	fmt.Fprintf(&b, "        amount: {argument: %s}    # with minor_units: true if it is in cents\n", quote(amount))
	fmt.Fprintf(&b, "        currency: %s\n", currency)
	fmt.Fprintf(&b, "        counterparty: {argument: %s}\n", quote(cmp.Or(to, "change-me")))
	if key := find("idempotency"); key != "" {
		fmt.Fprintf(&b, "        idempotency_argument: %s\n", quote(key))
	}
	b.WriteString("        # same: [...]           # which arguments make two calls the same; all, without it\n")
	b.WriteString("        # reference: {result: id}")
	return b.String()
}
