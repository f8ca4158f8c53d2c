package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/sqlite"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/config"
	"spendgate/deploy/policies"
	"spendgate/hotpath"
	"spendgate/hotpath/client"
	"spendgate/hotpath/console"
	"spendgate/hotpath/guard/embedded"
)

// The files of a single node's data folder.
const (
	adminKeyFile  = "admin.key"
	sampleKeyFile = "sample.key"
)

// sampleKeyRPM is the highest limit that a key may have.
const sampleKeyRPM = 10000

// dev runs the embedded single node.
func dev(ctx context.Context, p cli.Process) error {
	c, err := p.Load(config.Dev)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	lines, log := newLogLines(p.Stderr, textLog(level))
	defer lines.flush()
	log = ofDeployment(log, c.Deployment)
	unlock, err := cli.LockFolder(c.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	if len(c.AdminKeys) == 0 {
		key, err := readOrMake(filepath.Join(c.DataDir, adminKeyFile), rand.Text)
		if err != nil {
			return err
		}
		c.AdminKeys = []config.Secret{config.Secret(key)}
	}
	store, err := sqlite.Open(ctx, filepath.Join(c.DataDir, cli.StoreFile), log)
	if err != nil {
		return err
	}
	redis.SetLogger(redisLog{log})
	server, err := embedded.Start()
	if err != nil {
		return err
	}
	defer server.Close()
	ops, err := startOperations(c, "embedded single node", lines, log)
	if err != nil {
		return err
	}
	var n *node
	links := console.NewLinks(func(ctx context.Context) (console.Keys, error) { return n.consoleKeys(ctx, c) })
	if !c.Console {
		links = nil
	}
	n, err = newNode(c, backends{ops: ops, store: store, redis: server.Options(), embedded: true, links: links}, log)
	if err != nil {
		return errors.Join(err, ops.stop(context.Background()))
	}
	n.reload = func() {
		n.readAgain(func() (config.Config, error) {
			again, err := p.Load(config.Dev)
			if len(again.AdminKeys) == 0 {
				again.AdminKeys = c.AdminKeys
			}
			return again, err
		}, level)
	}
	return n.run(ctx, func(ctx context.Context) error {
		key, err := n.sample(ctx, p, c.DataDir)
		if err != nil {
			return err
		}
		if err := n.inviteToConsole(p.Stdout); err != nil {
			return err
		}
		return welcome(p.Stdout, baseURL(n.listener.Addr()), c.DataDir, key)
	})
}

// readOrMake returns the secret in a file, and creates the file if there is none.
func readOrMake(path string, fresh func() string) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret := fresh()
		return secret, os.WriteFile(path, []byte(secret+"\n"), 0o600)
	}
	return strings.TrimSpace(string(content)), err
}

// sample returns the sample key, which is made at the first start together with the
// ready-made policies. The key's file is written last, so that the next start repeats an
// interrupted one.
func (n *node) sample(ctx context.Context, p cli.Process, folder string) (key string, err error) {
	path := filepath.Join(folder, sampleKeyFile)
	content, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return strings.TrimSpace(string(content)), err
	}
	if key, _, err = n.authorizer.CreateKey(ctx, audit.Actor{Principal: "spendgate dev"},
		hotpath.NewKey{Name: "sample", RateLimitRPM: sampleKeyRPM}); err != nil {
		return "", err
	}
	api, err := cli.NewClient(p, client.Options{BaseURL: baseURL(n.listener.Addr()), APIKey: key})
	if err != nil {
		return "", err
	}
	entries, err := policies.Files.ReadDir(".")
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		file, err := policies.Files.Open(entry.Name())
		if err != nil {
			return "", err
		}
		ready, err := policyfile.Parse(entry.Name(), file)
		if err != nil {
			return "", err
		}
		for _, policy := range ready {
			if _, err := api.CreatePolicyJSON(ctx, policy.Body); err != nil {
				return "", fmt.Errorf("cannot store the ready policy %s: %w", policy.Source, err)
			}
		}
	}
	return key, os.WriteFile(path, []byte(key+"\n"), 0o600)
}

// baseURL returns the listener's URL for a client on this machine.
func baseURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(addr.String())
		return "http://" + net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + addr.String()
}

// welcome prints commands to copy and try.
func welcome(w io.Writer, base, folder, key string) error {
	_, err := fmt.Fprintf(w, `
spendgate %[1]s, embedded single node: everything in this process, state in %[2]s.
It keeps what it answers across restarts and kill -9. It is one node, not a fleet.

Paste into another terminal:

  export SPENDGATE_API_URL=%[3]s SPENDGATE_API_KEY=%[4]s

  # allowed: a refund within policy
  curl -s $SPENDGATE_API_URL/v1/checks -H "X-API-Key: $SPENDGATE_API_KEY" -H 'Content-Type: application/json' -d '{
    "agent_id": "support-bot", "policy_id": "refund-desk", "action_type": "refund",
    "amount": 42.50, "currency": "USD", "counterparty": "customer-'$RANDOM'", "metadata": {"days_since_purchase": 5}}'

  # blocked: over the limit
  curl -s $SPENDGATE_API_URL/v1/checks -H "X-API-Key: $SPENDGATE_API_KEY" -H 'Content-Type: application/json' -d '{
    "agent_id": "support-bot", "policy_id": "refund-desk", "action_type": "refund",
    "amount": 9000, "currency": "USD", "counterparty": "customer-'$RANDOM'", "metadata": {"days_since_purchase": 5}}'

  # escalated: a human decides
  curl -s $SPENDGATE_API_URL/v1/checks -H "X-API-Key: $SPENDGATE_API_KEY" -H 'Content-Type: application/json' -d '{
    "agent_id": "support-bot", "policy_id": "refund-desk", "reason_text": "customer wants the money back for a broken item",
    "amount": 300, "currency": "USD", "counterparty": "customer-'$RANDOM'", "metadata": {"days_since_purchase": 5}}'

  # what was blocked or escalated
  curl -s "$SPENDGATE_API_URL/v1/violations?limit=5" -H "X-API-Key: $SPENDGATE_API_KEY"

200 varied actions: make demo. Stop with Ctrl-C.

`, version, folder, base, key)
	return err
}
