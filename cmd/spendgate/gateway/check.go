package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lookedAs returns the capabilities that the gateway declares when it looks at a server's tools,
// one set after the other: some servers offer tools only to agents with certain capabilities, or
// define them differently for agents without them.
func lookedAs() []*mcp.ClientCapabilities {
	return []*mcp.ClientCapabilities{{
		RootsV2: &mcp.RootCapabilities{ListChanged: true}, Sampling: &mcp.SamplingCapabilities{},
		Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
	}, {}}
}

const lookTimeout = time.Minute

// looker connects to servers and reads their tools.
type looker struct {
	environ []string
	log     *slog.Logger
	version string
}

// look reads a server's tools, in all the forms that it offers to agents of both eras, and the name that it gives itself.
func (o looker) look(ctx context.Context, u *upstream) (all pinned, name string, err error) {
	all = make(pinned)
	for _, old := range []bool{true, false} {
		for _, capabilities := range lookedAs() {
			var seen pinned
			if seen, name, err = o.lookAs(ctx, u, old, capabilities); err != nil {
				return nil, "", fmt.Errorf("the server %s: %w", u.name, err)
			}
			all.add(seen)
		}
	}
	return all, name, nil
}

// add adds the forms of tools that a server offers to other agents.
func (p pinned) add(others pinned) {
	for name, other := range others {
		d, known := p[name]
		switch {
		case !known:
			d = other
		case d.SHA256 == "" || other.SHA256 == "":
			d.SHA256 = "" // ambiguous
		case !slices.Contains(append(d.Also, d.SHA256), other.SHA256):
			d.Also = append(d.Also, other.SHA256)
			d.ReadOnly = d.ReadOnly && other.ReadOnly
		}
		p[name] = d
	}
}

// lookAs connects to a server as an agent with those capabilities, reads its tools and disconnects.
func (o looker) lookAs(ctx context.Context, u *upstream, old bool, capabilities *mcp.ClientCapabilities,
) (tools pinned, name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l := &link{u: u, log: o.log, old: old, failed: func() {}, dial: func() mcp.Transport { return dialer(u, o.environ, o.log) }}
	l.client = mcp.NewClient(&mcp.Implementation{Name: "spendgate-gateway", Version: o.version}, &mcp.ClientOptions{
		Capabilities:           capabilities,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { l.forgetTools() },
	})
	l.client.AddSendingMiddleware(l.send)
	defer l.close()
	if tools, err = l.settledTools(ctx); err != nil {
		return nil, "", err
	}
	cs, err := l.session(ctx)
	if err != nil {
		return nil, "", err
	}
	if info := cs.InitializeResult().ServerInfo; info != nil { // it may be missing
		name = info.Name
	}
	return tools, name, nil
}

// settledTools returns the server's tools once they have not changed for a moment: some
// servers add tools only when they know the capabilities of the agent.
func (l *link) settledTools(ctx context.Context) (pinned, error) {
	const moment, rounds = 300 * time.Millisecond, 10
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.changes
	}
	for round := 1; ; round++ {
		before := count()
		tools, _, err := l.definitions(ctx, 0)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(moment):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if count() == before || round == rounds {
			return tools, nil
		}
	}
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
	Accept  bool // write the lock
	Version string
	Environ []string
	Logger  *slog.Logger
	Out     io.Writer
}

// errDiffers is the error of Check when tools differ from the lock.
var errDiffers = errors.New("tools differ from the lock: they are off until somebody accepts them")

// Check compares the tools of the servers with the lock and prints the differences. With
// Accept it renews the lock.
func Check(ctx context.Context, o CheckOptions) error {
	old, err := readLock(o.File.path)
	if err != nil {
		return err
	}
	now := &lock{Upstreams: make(map[string]map[string]pin)}
	var lines, left, notes []string // left is what cannot be accepted
	for _, name := range o.File.order {
		u := o.File.Upstreams[name]
		tools, _, err := looker{o.Environ, o.Logger, o.Version}.look(ctx, u)
		if err != nil {
			return err
		}
		now.Upstreams[name] = tools.pins()
		var known map[string]pin
		if old != nil {
			known = old.Upstreams[name]
		}
		lines = append(lines, u.compare(known, tools)...)
		left = append(left, u.compare(now.Upstreams[name], tools)...)
		notes = append(notes, u.notes(known, tools)...)
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
	for i := range notes {
		notes[i] = "note: " + notes[i]
	}
	for _, line := range slices.Concat(notes, lines) {
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
			return cmp.Or(err, errDiffers)
		}
		_, err := fmt.Fprintln(o.Out, "accepted: "+lockPath(o.File.path))
		return err
	case len(lines) > 0:
		return errDiffers
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
		if d.Also != nil {
			kind += ", and another for agents that can do less"
		}
		switch {
		case d.SHA256 == "":
			lines = append(lines, fmt.Sprintf("%s: %s cannot be accepted: its definition is ambiguous", u.name, printable(name)))
		case !ok:
			lines = append(lines, fmt.Sprintf("%s: %s is new (%s)", u.name, printable(name), kind))
		case !was.accepts(d.pin):
			lines = append(lines, fmt.Sprintf("%s: %s changed (%s)", u.name, printable(name), kind))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ok := now[name]; !ok {
			lines = append(lines, fmt.Sprintf("%s: %s is gone", u.name, printable(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Tools)) {
		if _, ok := now[name]; !ok {
			lines = append(lines, fmt.Sprintf("%s: %s is mapped, and the server has no such tool", u.name, name))
		}
	}
	return lines
}

// notes returns remarks on tools that are as they were accepted, or that may be accepted.
func (u *upstream) notes(known map[string]pin, now pinned) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		d, was := now[name], known[name]
		if d.SHA256 != "" && was.accepts(d.pin) && len(was.Also) > len(d.Also) {
			notes = append(notes, fmt.Sprintf("%s: %s has another definition that was accepted, and that the server has for no agent now; "+
				"--accept forgets it", u.name, printable(name)))
		}
		if t := u.Tools[name]; t != nil {
			for _, note := range t.notes(d.schema) {
				notes = append(notes, fmt.Sprintf("%s: %s: %s", u.name, name, note))
			}
		}
	}
	return notes
}

// printable returns a server's name for something as people are shown it: quoted if it has anything
// but visible ASCII characters, since others may hide what is there, or look like another name.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return strconv.QuoteToASCII(name)
	}
	return name
}
