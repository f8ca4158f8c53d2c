package load

import (
	"context"
	"errors"
	"fmt"

	"spendgate/hotpath/client"
)

// Deployment is a running spendgate that a workload is prepared on.
type Deployment struct {
	URL      string // http://host:port
	AdminKey string
}

// keyRPM is the rate limit of the keys that Prepare makes, the highest there is.
const keyRPM = 10_000

// Prepare creates the workload's API keys and policies, with further rules after each policy's own,
// and returns the keys.
func (d Deployment) Prepare(ctx context.Context, w Workload, more ...map[string]any) ([]string, error) {
	admin, err := client.New(client.Options{BaseURL: d.URL, AdminKey: d.AdminKey})
	if err != nil {
		return nil, err
	}
	keys, err := makeKeys(ctx, admin, w, client.KeyRequest{})
	if err != nil {
		return nil, err
	}
	for i := range w.Policies {
		if err := d.MakePolicy(ctx, keys[i%len(keys)], i, more...); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// PayingKeys returns as many API keys as the workload has, which check and redeem payments.
func (d Deployment) PayingKeys(ctx context.Context, w Workload) ([]string, error) {
	admin, err := client.New(client.Options{BaseURL: d.URL, AdminKey: d.AdminKey})
	if err != nil {
		return nil, err
	}
	return makeKeys(ctx, admin, w, client.KeyRequest{Grants: client.Grants{Role: "gateway", Principal: "bench"}})
}

func makeKeys(ctx context.Context, admin *client.Client, w Workload, r client.KeyRequest) ([]string, error) {
	keys := make([]string, w.Keys)
	for i := range keys {
		r.Name, r.RateLimitRPM = fmt.Sprint("bench ", i), new(keyRPM)
		key, err := admin.CreateKey(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("cannot make API key %d: %w", i, err)
		}
		keys[i] = key.APIKey
	}
	return keys, nil
}

// Freeze makes as many freezes, which cover no check of a workload.
func (d Deployment) Freeze(ctx context.Context, freezes int) error {
	admin, err := client.New(client.Options{BaseURL: d.URL, AdminKey: d.AdminKey})
	if err != nil {
		return err
	}
	failed := make(chan error)
	const atOnce = 50
	for first := range atOnce {
		go func() {
			var err error
			for i := first; i < freezes && err == nil; i += atOnce {
				nobody := fmt.Sprint("nobody ", i)
				scope := [...]client.FreezeScope{{AgentID: nobody}, {Counterparty: nobody}, {Principal: nobody}}[i%3]
				_, err = admin.CreateFreeze(ctx, client.NewFreeze{Scope: scope, Reason: "a benchmark"})
			}
			failed <- err
		}()
	}
	for range atOnce {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return fmt.Errorf("cannot freeze: %w", err)
	}
	return nil
}

// MakePolicy creates the i-th policy, with further rules after its own.
func (d Deployment) MakePolicy(ctx context.Context, key string, i int, more ...map[string]any) error {
	api, err := client.New(client.Options{BaseURL: d.URL, APIKey: key})
	if err == nil {
		_, err = api.CreatePolicyJSON(ctx, policyBody(i, more...))
	}
	if err != nil {
		return fmt.Errorf("cannot make policy %d: %w", i, err)
	}
	return nil
}
