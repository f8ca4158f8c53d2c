package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/valyala/fasthttp"

	"spendgate/bench/fleet"
)

// echoAnswer is as long as the answer to a check.
const echoAnswer = `{"check_id":"chk_00000000000000000000000000000000","decision":"block","confidence":"high",` +
	`"reason_code":"max_amount_exceeded","message":"7000.00 USD exceeds the limit of 5000.00 USD",` +
	`"violated_rule_id":"cap","violated_rule_description":"Blocks actions over 5000 USD","policy_version":1,` +
	`"next_step":"Ask for less.","latency_ms":1,"timestamp":"2026-01-01T00:00:00.000Z"}`

// serveEcho returns the baseline: what HTTP costs when nothing is done.
func serveEcho(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot serve the baseline: %w", err)
	}
	server := &fasthttp.Server{Handler: func(r *fasthttp.RequestCtx) {
		r.Response.Header.SetContentType("application/json")
		r.SetBodyString(echoAnswer)
	}, CloseOnShutdown: true}
	context.AfterFunc(ctx, func() { _ = server.Shutdown() })
	return server.Serve(l)
}

// startEcho starts this program once more, as the baseline.
func (b *bench) startEcho(ctx context.Context) (*fleet.Process, string, error) {
	addr, err := fleet.FreeAddr()
	if err != nil {
		return nil, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	server, err := b.StartProgram(ctx, fleet.Program{Name: "echo", Path: self, Args: []string{"-echo", addr}, URL: "http://" + addr + "/"})
	return server, addr, err
}
