package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
	path string // of the file; empty where there is no lock to read again

	mu   sync.Mutex
	pins *lock
	read fs.FileInfo // of the lock file that was read last; nil at first
}

// now reads the lock again if its file has changed. If the file is gone or cannot be read, the lock stays as it was.
func (l *locked) now() *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path == "" {
		return l.pins
	}
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
	text, err := json.Marshal(l, json.Deterministic(true))
	if err != nil {
		return err
	}
	value := jsontext.Value(text)
	if err := value.Indent(); err != nil {
		return err
	}
	temporary := lockPath(path) + ".new"
	if err := os.WriteFile(temporary, append(value, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, lockPath(path))
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

// accepted returns why a tool is off although it is mapped or passed, nil if its
// definition is the one in the lock.
func (l *lock) accepted(u *upstream, name string, d definition) error {
	if l == nil {
		return nil // only a shadow starts without a lock
	}
	switch known, ok := l.Upstreams[u.name][name]; {
	case d.SHA256 == "":
		return fmt.Errorf("the definition of the tool %s is ambiguous: it is off", name)
	case !ok:
		return fmt.Errorf("the tool %s is new: it is off until somebody accepts it (spendgate gateway check --accept)", name)
	case !known.accepts(d.pin):
		return fmt.Errorf("the definition of the tool %s changed: it is off until somebody accepts it (spendgate gateway check --accept)", name)
	default:
		return nil
	}
}
