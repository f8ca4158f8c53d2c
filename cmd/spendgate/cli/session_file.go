package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spendgate/hotpath/client"
)

// SignedIn is the session of a person who has signed in to a service from the command line (S78).
type SignedIn struct {
	URL     string `json:"url"` // of the service; the session is sent to no other one
	Origin  string `json:"origin"`
	Session string `json:"session"` // what a browser has in its cookie
}

// sessionFile returns the path of the file with the session, in the user's folder of settings.
func (p Process) sessionFile() (string, error) {
	values := make(map[string]string)
	for _, entry := range p.Environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	for _, folder := range [][]string{{values["XDG_CONFIG_HOME"]}, {values["HOME"], ".config"}, {values["APPDATA"]}} {
		if folder[0] != "" {
			return filepath.Join(append(folder, "spendgate", "session.json")...), nil
		}
	}
	return "", errors.New("there is no folder to keep a session in: XDG_CONFIG_HOME and HOME are not set")
}

// ReadSession returns the session at a service; nil if there is none.
func (p Process) ReadSession(url string) (*SignedIn, error) {
	s, err := p.KeptSession()
	if err != nil || s == nil || s.URL != strings.TrimRight(url, "/") {
		return nil, err
	}
	return s, nil
}

// KeptSession returns the session, whichever service it is for; nil if there is none.
func (p Process) KeptSession() (*SignedIn, error) {
	file, err := p.sessionFile()
	if err != nil {
		return nil, nil //nolint:nilerr // without a place for it there is no session
	}
	text, err := os.ReadFile(file) //nolint:gosec // the user's own
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the session: %w", err)
	}
	s := new(SignedIn)
	if err := json.Unmarshal(text, s); err != nil || s.Session == "" {
		return nil, fmt.Errorf("%s has no session; sign in with spendgate login", file)
	}
	return s, nil
}

// WriteSession stores a session in place of the one before. It creates a new file, so that
// whoever could read the old one cannot read it.
func (p Process) WriteSession(s SignedIn) error {
	file, err := p.sessionFile()
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("cannot keep the session: %w", err)
	}
	made, err := os.CreateTemp(filepath.Dir(file), "session-*") // 0600
	if err != nil {
		return fmt.Errorf("cannot keep the session: %w", err)
	}
	_, err = made.Write(append(text, '\n'))
	if err := errors.Join(err, made.Close()); err != nil {
		return errors.Join(fmt.Errorf("cannot keep the session: %w", err), os.Remove(made.Name()))
	}
	if err := os.Rename(made.Name(), file); err != nil {
		return errors.Join(fmt.Errorf("cannot keep the session: %w", err), os.Remove(made.Name()))
	}
	return nil
}

// ForgetSession removes the stored session.
func (p Process) ForgetSession() error {
	file, err := p.sessionFile()
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot forget the session: %w", err)
	}
	return nil
}

// Client returns a client with the session.
func (s *SignedIn) Client(p Process) (*client.Client, error) {
	return NewClient(p, client.Options{BaseURL: s.URL, Session: s.Session, Origin: s.Origin})
}
