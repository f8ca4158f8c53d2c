package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/audit/pause"
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

// Looker connects to servers and reads their tools, for Init and Check.
type Looker struct {
	Version string
	Environ []string // of the servers that are child processes
	Logger  *slog.Logger
	Out     io.Writer
}

// look reads a server's tools, in all the forms that it offers to agents of both eras, and the name that it gives itself.
func (o Looker) look(ctx context.Context, u *upstream) (all pinned, name string, err error) {
	all = make(pinned)
	for _, old := range []bool{true, false} {
		for _, capabilities := range lookedAs() {
			bounded, cancel := context.WithTimeout(ctx, lookTimeout)
			l := o.link(u, old, capabilities)
			tools, cs, err := l.settledTools(bounded)
			if cancel(); err != nil {
				return nil, "", fmt.Errorf("the server %s: %w", u.name, err)
			}
			if info := cs.InitializeResult().ServerInfo; info != nil { // it may be missing
				name = info.Name
			}
			l.close()
			all.add(tools)
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

// link returns what connects to a server as an agent with those capabilities.
func (o Looker) link(u *upstream, old bool, capabilities *mcp.ClientCapabilities) *link {
	l := &link{u: u, log: o.Logger, old: old, failed: func() {}, arrived: func(jsonrpc.Message) {}}
	l.dial = func(l *link) mcp.Transport { return l.dialer(o.Environ) }
	l.client = mcp.NewClient(&mcp.Implementation{Name: "spendgate-gateway", Version: o.Version}, &mcp.ClientOptions{
		Capabilities:           capabilities,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { l.forgetTools() },
	})
	l.client.AddSendingMiddleware(l.send)
	return l
}

// settledTools returns the server's tools once they have not changed for a moment: some
// servers add tools only when they know the capabilities of the agent.
func (l *link) settledTools(ctx context.Context) (pinned, *mcp.ClientSession, error) {
	const moment, rounds = 300 * time.Millisecond, 10
	for round := 1; ; round++ {
		before := l.changes.Load()
		tools, cs, err := l.definitions(ctx, 0)
		if err != nil {
			return nil, nil, err
		}
		if err := pause.For(ctx, moment); err != nil {
			return nil, nil, err
		}
		if l.changes.Load() == before || round == rounds {
			return tools, cs, nil
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

// errDiffers is the error of Check when tools differ from the lock.
var errDiffers = errors.New("tools differ from the lock: they are off until somebody accepts them")

// Check compares the tools of a file's servers with the lock and prints the differences. With
// accept it renews the lock.
func (o Looker) Check(ctx context.Context, file *File, accept bool) error {
	old, err := readLock(file.path)
	if err != nil {
		return err
	}
	now := &lock{Upstreams: make(map[string]map[string]pin)}
	var notes, lines []string
	if old == nil {
		old, lines = new(lock), []string{"there is no " + lockPath(file.path)}
	}
	left := 0 // cannot be accepted
	for _, name := range file.order {
		u := file.Upstreams[name]
		tools, _, err := o.look(ctx, u)
		if err != nil {
			return err
		}
		now.Upstreams[name] = tools.pins()
		noted, differ := u.compare(old.Upstreams[name], tools)
		_, never := u.compare(now.Upstreams[name], tools)
		notes, lines, left = append(notes, noted...), append(lines, differ...), left+len(never)
	}
	for _, name := range slices.Sorted(maps.Keys(old.Upstreams)) {
		if now.Upstreams[name] == nil {
			lines = append(lines, name+": is not in the file any more")
		}
	}
	end, differs := "all tools are as they were accepted", len(lines) > 0
	if accept {
		if err := now.write(file.path); err != nil {
			return err
		}
		end, differs = "accepted: "+lockPath(file.path), left > 0
		if differs {
			end = fmt.Sprintf("accepted, but for %d that cannot be: %s", left, lockPath(file.path))
		}
	}
	if lines = append(notes, lines...); accept || !differs {
		lines = append(lines, end)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(o.Out, line); err != nil {
			return err
		}
	}
	if differs {
		return errDiffers
	}
	return nil
}

// compare returns a line for each tool that differs from the lock, and remarks on tools that are as they were accepted, or that may be.
func (u *upstream) compare(known map[string]pin, now pinned) (notes, lines []string) {
	say := func(name, text string, args ...any) {
		lines = append(lines, u.name+": "+printable(name)+fmt.Sprintf(text, args...))
	}
	note := func(name, text string) { notes = append(notes, "note: "+u.name+": "+printable(name)+text) }
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
			say(name, " cannot be accepted: its definition is ambiguous")
		case !ok:
			say(name, " is new (%s)", kind)
		case !was.accepts(d.pin):
			say(name, " changed (%s)", kind)
		case len(was.Also) > len(d.Also):
			note(name, " has another definition that was accepted, and that the server has for no agent now; --accept forgets it")
		}
		if t := u.Tools[name]; t != nil {
			for _, about := range t.notes(d.schema) {
				note(name, ": "+about)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ok := now[name]; !ok {
			say(name, " is gone")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Tools)) {
		if _, ok := now[name]; !ok {
			say(name, " is mapped, and the server has no such tool")
		}
	}
	return notes, lines
}

// printable returns a server's name for something as people are shown it: quoted if it has anything
// but visible ASCII characters, since others may hide what is there, or look like another name.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// lock has the definitions of tools that people accepted: FILE.lock.
type lock struct {
	// Upstreams has the tools of each server by their names.
	Upstreams map[string]map[string]pin `json:"upstreams"`
}

// pin is an accepted definition of a tool.
type pin struct {
	SHA256   string   `json:"sha256"`         // of the definition's canonical JSON
	Also     []string `json:"also,omitempty"` // the same of the definitions for agents with fewer capabilities
	ReadOnly bool     `json:"read_only"`      // all of these definitions have the annotation readOnlyHint
}

// accepts reports whether a definition, in all its forms, is an accepted one.
func (p pin) accepts(d pin) bool {
	other := func(form string) bool { return form != p.SHA256 && !slices.Contains(p.Also, form) }
	return !other(d.SHA256) && !slices.ContainsFunc(d.Also, other)
}

// pinned are the tools of a server as it defines them now.
type pinned map[string]definition

// definition is one tool as a server defines it.
type definition struct {
	pin
	text, schema jsontext.Value
}

func lockPath(path string) string { return path + ".lock" }

// readLock reads the lock of a file; nil when there is no lock.
func readLock(path string) (*lock, error) {
	text, err := os.ReadFile(lockPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := new(lock)
	if err := json.Unmarshal(text, l, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", lockPath(path), err)
	}
	return l, nil
}

// locked is the lock of a file that is in use. People may accept tools meanwhile.
type locked struct {
	path string // of the file

	mu   sync.Mutex
	pins *lock
	read fs.FileInfo // of the lock file that was read last; nil at first
}

// now reads the lock again if its file has changed. If the file is gone or cannot be read, the lock stays as it was.
func (l *locked) now() *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(lockPath(l.path))
	// A file that replaces another one may have the same time.
	if err != nil || l.read != nil && os.SameFile(info, l.read) && info.ModTime().Equal(l.read.ModTime()) {
		return l.pins
	}
	if pins, err := readLock(l.path); err == nil && pins != nil {
		l.pins, l.read = pins, info
	}
	return l.pins
}

// write writes the lock beside a file.
func (l *lock) write(path string) error {
	text, err := json.Marshal(l, json.Deterministic(true), jsontext.WithIndent("\t"))
	temporary := lockPath(path) + ".new"
	if err == nil {
		err = os.WriteFile(temporary, append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(temporary, lockPath(path))
	}
	if err != nil {
		return fmt.Errorf("cannot write the lock: %w", err)
	}
	return nil
}

// define makes the definition of a tool, of the members that the gateway passes on.
func define(t *mcp.Tool) (d definition) {
	d.ReadOnly = t.Annotations != nil && t.Annotations.ReadOnlyHint
	d.schema, d.text = encode(t.InputSchema), encode(t)
	canonical := d.text.Clone()
	if err := canonical.Canonicalize(); err == nil { // a definition without a hash is never accepted
		sum := sha256.Sum256(canonical)
		d.SHA256 = hex.EncodeToString(sum[:])
	}
	return d
}

// listTools asks a server for all its tools.
func listTools(ctx context.Context, cs *mcp.ClientSession) (pinned, error) {
	tools, size := make(pinned), 0
	for t, err := range cs.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("cannot list its tools: %w", err)
		}
		d := define(t)
		if _, twice := tools[t.Name]; twice {
			d.SHA256 = "" // ambiguous, and so never accepted
		}
		tools[t.Name] = d
		if size += len(d.text); size > maxServerMessage { // what a server can make the gateway remember
			return nil, errors.New("the list of its tools is too long")
		}
	}
	return tools, nil
}
