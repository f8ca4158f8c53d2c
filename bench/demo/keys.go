package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spendgate/cmd/spendgate/policyfile"
	"spendgate/config"
	"spendgate/hotpath/client"
)

// adminKeyFile is where a dev node leaves the admin key that it makes at first
// start.
var adminKeyFile = filepath.Join(config.DefaultDataDir, "admin.key")

const (
	keyRPM  = 10000
	keyLife = time.Hour // nobody takes them away
)

// keys are the API keys that the demo sends with.
type keys struct {
	agent  config.Secret // for checks
	author config.Secret // for policies
}

// findKeys makes a key of each role, as one should for agents and for who
// maintains policies, both for the demo's policies alone; for that it needs an
// admin key. SPENDGATE_API_KEY is used for both instead where it is all there is.
func findKeys(ctx context.Context, settings config.Client, policies []policyfile.Policy, run string) (keys, error) {
	admin := settings.AdminKey
	if admin == "" && settings.APIKey != "" {
		return keys{settings.APIKey, settings.APIKey}, nil
	}
	if admin == "" {
		content, err := os.ReadFile(adminKeyFile)
		if errors.Is(err, os.ErrNotExist) {
			return keys{}, fmt.Errorf("there is no %s, and neither SPENDGATE_ADMIN_KEY nor SPENDGATE_API_KEY is set: "+
				"start a node with make run, or name one", adminKeyFile)
		}
		if err != nil {
			return keys{}, err
		}
		admin = config.Secret(strings.TrimSpace(string(content)))
	}
	var ids []string
	for _, p := range policies {
		id, err := policyID(p.Body)
		if err != nil {
			return keys{}, fmt.Errorf("%s: %w", p.Source, err)
		}
		ids = append(ids, id)
	}
	api, err := client.New(client.Options{BaseURL: settings.APIURL, AdminKey: string(admin), UserAgent: userAgent})
	if err != nil {
		return keys{}, err
	}
	expires := client.Timestamp{Time: time.Now().Add(keyLife)}
	create := func(role string) (config.Secret, error) {
		k, err := api.CreateKey(ctx, client.KeyRequest{
			Name: "demo " + run + " " + role, RateLimitRPM: new(keyRPM),
			Grants: client.Grants{Role: role, PolicyIDs: ids, ExpiresAt: &expires},
		})
		if err != nil {
			return "", fmt.Errorf("cannot make a key of role %s: %w", role, err)
		}
		return config.Secret(k.APIKey), nil
	}
	agent, err := create("agent")
	if err != nil {
		return keys{}, err
	}
	author, err := create("author")
	return keys{agent, author}, err
}

// policyID returns the name that a policy's body gives it.
func policyID(body []byte) (string, error) {
	var named struct {
		PolicyID string `json:"policy_id"`
	}
	err := json.Unmarshal(body, &named)
	return named.PolicyID, err
}
