package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
)

// healthcheck asks /readyz of the node on this machine, for container images that have no
// other HTTP client.
func healthcheck(ctx context.Context, p cli.Process) error {
	addr, err := config.LoadOpsAddr(p.Environ)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("no answer from the node: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("no answer from the node: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
	}
	_, err = p.Stdout.Write(body)
	return err
}
