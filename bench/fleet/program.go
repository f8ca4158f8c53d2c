package fleet

import (
	"context"
	"errors"
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

// StartProgram starts a server, with its log in dir, and waits until it works.
func StartProgram(ctx context.Context, dir string, o Program) (*Process, error) {
	p := &Process{name: o.Name, path: o.Path, args: o.Args, env: o.Env, logPath: filepath.Join(dir, o.Name+".log")}
	if err := p.startServing(ctx, o.URL); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// startServing starts a program and waits until a URL of it answers 200.
func (p *Process) startServing(ctx context.Context, url string) error {
	if err := p.start(); err != nil {
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
