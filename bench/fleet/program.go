package fleet

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
)

// Program is a server of another kind, such as one to compare with.
type Program struct {
	Name string
	Path string // absolute
	Args []string
	Env  []string // nil is the caller's
	URL  string   // answers 200 once the server works
}

// StartProgram starts a server beside the fleet and waits until it works. It
// ends with the fleet.
func (f *Fleet) StartProgram(ctx context.Context, o Program) (*Process, error) {
	p := &Process{name: o.Name, path: o.Path, args: o.Args, env: o.Env, logPath: filepath.Join(f.dir, o.Name+".log")}
	f.programs = append(f.programs, p)
	return p, p.startServing(ctx, o.URL)
}

// startServing starts a program and waits until a URL of it answers 200.
func (p *Process) startServing(ctx context.Context, url string) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.awaitOK(ctx, url)
}

// awaitOK waits until a URL answers 200.
func (p *Process) awaitOK(ctx context.Context, url string) error {
	client := &Client{Base: url, HTTP: newHTTPClient()}
	defer client.HTTP.CloseIdleConnections()
	err := p.await(ctx, func(ctx context.Context) error {
		answer, err := client.Do(ctx, http.MethodGet, "", nil)
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("it answers %s", answer)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	return nil
}
