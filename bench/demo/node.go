package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spendgate/cmd/spendgate/policyfile"
	"spendgate/config"
	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

const (
	keyRPM  = 10000
	keyLife = time.Hour // the demo does not delete its keys
)

// node is the running node, asked with one key.
type node struct{ *client.Client }

// newNodes makes a key of each role, as one should for agents and for who maintains
// policies, both for the demo's policies alone. The admin key is the key of the settings
// or the one that a dev node left.
func newNodes(ctx context.Context, settings config.Client, policies []policyfile.Policy, run string) (agent, author node, err error) {
	if settings.AdminKey == "" {
		content, err := os.ReadFile(filepath.Join(config.DefaultDataDir, "admin.key"))
		if err != nil {
			return node{}, node{}, fmt.Errorf("no admin key: start a node with make run, or set SPENDGATE_ADMIN_KEY: %w", err)
		}
		settings.AdminKey = config.Secret(strings.TrimSpace(string(content)))
	}
	connect := func(o client.Options) (node, error) {
		o.BaseURL, o.UserAgent = settings.APIURL, "spendgate-demo"
		c, err := client.New(o)
		return node{c}, err
	}
	admin, err := connect(client.Options{AdminKey: string(settings.AdminKey)})
	if err != nil {
		return node{}, node{}, err
	}
	grants := client.Grants{ExpiresAt: &client.Timestamp{Time: time.Now().Add(keyLife)}}
	for _, p := range policies {
		id, err := policyID(p)
		if err != nil {
			return node{}, node{}, err
		}
		grants.PolicyIDs = append(grants.PolicyIDs, id)
	}
	var made [2]node
	for i, role := range []string{"agent", "author"} {
		grants.Role = role
		k, err := admin.CreateKey(ctx, client.KeyRequest{Name: "demo " + run + " " + role, RateLimitRPM: new(keyRPM), Grants: grants})
		if err != nil {
			return node{}, node{}, fmt.Errorf("cannot make a key of role %s: %w", role, err)
		}
		if made[i], err = connect(client.Options{APIKey: k.APIKey}); err != nil {
			return node{}, node{}, err
		}
	}
	return made[0], made[1], nil
}

// policyID returns the name that a policy's body gives it.
func policyID(p policyfile.Policy) (string, error) {
	var named struct {
		PolicyID string `json:"policy_id"`
	}
	if err := json.Unmarshal(p.Body, &named); err != nil {
		return "", fmt.Errorf("%s: %w", p.Source, err)
	}
	return named.PolicyID, nil
}

// ensurePolicy stores a policy unless the node has one of its name.
func (n node) ensurePolicy(ctx context.Context, p policyfile.Policy) error {
	id, err := policyID(p)
	if err != nil {
		return err
	}
	_, err = n.Policy(ctx, id, 0)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == client.CodePolicyNotFound {
		_, err = n.CreatePolicyJSON(ctx, p.Body)
	}
	return err
}

// answer is what the node said to a check, and how long it took.
type answer struct {
	client.Result
	refusal string // the error's code, when there is no decision
	took    time.Duration
}

// check sends one action. That its idempotency key is another request's is an
// answer, too.
func (n node) check(ctx context.Context, a client.Action) (answer, error) {
	started := time.Now()
	result, err := n.Check(ctx, a)
	took := time.Since(started)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusUnprocessableEntity {
		return answer{Result: client.Result{Result: wire.Result{Message: refused.Message}}, refusal: refused.Code, took: took}, nil
	}
	if err != nil {
		return answer{}, err
	}
	return answer{Result: *result, took: took}, nil
}
