package gateway

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/cmd/spendgate/policyfile"
)

// File is a gateway's file as its author wrote it.
type File struct {
	Spendgate struct {
		URL     string `json:"url"`
		KeyFile string `json:"key_file"`
	} `json:"spendgate"`
	AgentID   agentID              `json:"agent_id"`
	Tokens    string               `json:"tokens"` // a folder
	Issuers   []issuer             `json:"issuers"`
	Listen    string               `json:"listen"`
	Console   string               `json:"console_url"`
	Metrics   string               `json:"metrics"`
	Default   string               `json:"default"`
	Shadow    bool                 `json:"shadow"`
	Upstreams map[string]*upstream `json:"upstreams"`

	path  string
	order []string // of the upstreams, as they are written
}

// agentID is who asks: a name, or the header of an HTTP request that has it.
type agentID struct{ fixed, header string }

// issuer signs tokens of agents. AgentPrefix tells its agents from those of others.
type issuer struct {
	URL         string  `json:"url"`
	Audience    string  `json:"audience"`
	AgentClaim  string  `json:"agent_claim"`
	AgentPrefix *string `json:"agent_prefix"`
}

// upstream is a server behind the gateway.
type upstream struct {
	Command []string          `json:"command"`
	Env     map[string]*value `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]*value `json:"headers"`
	Tools   map[string]*tool  `json:"tools"`

	name   string
	folder string // in which the command runs
}

// value is a text, or that of a file: tokens are renewed while the gateway runs.
type value struct {
	mu         sync.Mutex
	text, file string
}

// now returns the text, as the file has it now. It is what was read last if that fails, or if the path is no regular file:
// reading a pipe could block.
func (v *value) now() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if info, err := os.Stat(v.file); err == nil && info.Mode().IsRegular() {
		if text, err := secret(v.file); err == nil {
			v.text = text
		}
	}
	return v.text
}

// tool maps a tool's calls to actions.
type tool struct {
	PolicyID            string            `json:"policy_id"`
	ActionType          string            `json:"action_type"`
	Amount              *amountSource     `json:"amount"`
	Currency            *source           `json:"currency"`
	Counterparty        *source           `json:"counterparty"`
	Metadata            map[string]source `json:"metadata"`
	Same                *same             `json:"same"`
	Once                bool              `json:"once"`
	Pass                []string          `json:"pass"`
	IdempotencyArgument string            `json:"idempotency_argument"`
	Reference           *resultSource     `json:"reference"`
	DeclinedIf          *declined         `json:"declined_if"`
	WaitSeconds         *int              `json:"wait_seconds"`
}

// same has the arguments that name a payment.
type same struct {
	all   bool
	paths []string
}

// declined names the results that mean that nothing moved.
type declined struct {
	Result string           `json:"result"`
	In     []jsontext.Value `json:"in"`
}

// source is where a field of an action comes from: an argument of the call, with dots
// between nested names, or a fixed value in the file.
type source struct {
	Argument string         `json:"argument"`
	Value    jsontext.Value `json:"value"`
}

type amountSource struct {
	Argument   string `json:"argument"`
	MinorUnits bool   `json:"minor_units"`
	Digits     *int   `json:"digits"` // of the currency's unit behind the point that the argument counts in
}

type resultSource struct {
	Result string `json:"result"`
}

// UnmarshalJSON reads a name or {header: NAME}.
func (a *agentID) UnmarshalJSON(text []byte) error {
	return textOr(text, "header: NAME", &a.fixed, &a.header)
}

// UnmarshalJSON reads a text or {file: PATH}.
func (v *value) UnmarshalJSON(text []byte) error { return textOr(text, "file: PATH", &v.text, &v.file) }

// textOr reads a text, or an object with one member that is a text.
func textOr(text []byte, form string, plain, within *string) error {
	if text[0] == '"' {
		return json.Unmarshal(text, plain)
	}
	name, _, _ := strings.Cut(form, ":")
	var from map[string]string
	err := json.Unmarshal(text, &from)
	if *within = from[name]; err == nil && (*within == "" || len(from) > 1) {
		return fmt.Errorf("must be text, or {%s}", form)
	}
	return err
}

// UnmarshalJSON reads a list of arguments, or all.
func (s *same) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &s.paths)
	}
	if s.all = string(text) == `"all"`; !s.all {
		return errors.New(`must be a list of arguments, or all`)
	}
	return nil
}

// Load reads a gateway's file and the files that it names, with keys, tokens and headers.
// A fault in the text of the gateway's file is a *policyfile.FileError.
func Load(path string) (*File, error) {
	documents, err := policyfile.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, &policyfile.FileError{File: path, Faults: []policyfile.Fault{{Text: "must be one document"}}}
	}
	file, document := &File{path: path}, documents[0]
	if err := json.Unmarshal(document.Body, file, json.RejectUnknownMembers(true)); err != nil {
		member, text := document.Undecoded(err)
		return nil, &policyfile.FileError{File: path, Faults: []policyfile.Fault{{Line: document.Line(member), Text: text}}}
	}
	all, _ := parseObject(document.Body) // it has been read
	upstreams, _ := parseObject(all.get("upstreams"))
	for _, m := range upstreams {
		file.order = append(file.order, m.name)
		if u := file.Upstreams[m.name]; u != nil {
			u.name, u.folder = m.name, filepath.Dir(path)
		}
	}
	c := checker{file: file, line: document.Line}
	if c.document(); c.faults != nil {
		return nil, &policyfile.FileError{File: path, Faults: c.faults}
	}
	return file, file.readSecrets()
}

// Several reports whether the file names more than one server.
func (f *File) Several() bool { return len(f.order) > 1 }

// readSecrets reads the files that the file names; their paths are relative to it.
func (f *File) readSecrets() (err error) {
	for _, u := range f.Upstreams {
		for member, values := range map[string]map[string]*value{"env": u.Env, "headers": u.Headers} {
			for name, v := range values {
				failed := errors.New("must be text, or {file: PATH}")
				if v != nil && v.file == "" {
					continue
				}
				if v != nil {
					v.file = f.beside(v.file)
					v.text, failed = secret(v.file)
				}
				if failed != nil {
					err = errors.Join(err, fmt.Errorf("%s: upstreams.%s.%s.%s: %w", f.path, u.name, member, name, failed))
				}
			}
		}
	}
	return err
}

// beside resolves a path that the gateway's file names, relative to that file's folder.
func (f *File) beside(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.path), path)
}

// secret reads a file that contains one value, without the white space around it.
func secret(path string) (string, error) {
	const most = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	switch secret := strings.TrimSpace(string(text)); {
	case err != nil:
		return "", err
	case secret == "":
		return "", fmt.Errorf("%s is empty", path)
	case len(text) > most:
		return "", fmt.Errorf("%s is longer than %d bytes", path, most)
	default:
		return secret, nil
	}
}

// Service returns the address of the service and the API key that the file names, each
// empty if the file does not name it.
func (f *File) Service() (url, key string, err error) {
	if f.Spendgate.KeyFile != "" {
		if key, err = secret(f.beside(f.Spendgate.KeyFile)); err != nil {
			return "", "", fmt.Errorf("%s: spendgate.key_file: %w", f.path, err)
		}
	}
	return f.Spendgate.URL, key, nil
}
