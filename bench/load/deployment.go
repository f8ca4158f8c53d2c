package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Deployment is a running spendgate that a workload is prepared on.
type Deployment struct {
	URL      string // http://host:port
	AdminKey string
}

// KeyRPM is the rate limit of the keys that Prepare makes, the highest there is.
const KeyRPM = 10_000

const setupTimeout = 10 * time.Second

// Prepare makes the workload's API keys and policies and returns the keys.
func (d Deployment) Prepare(ctx context.Context, w Workload) ([]string, error) {
	keys := make([]string, w.Keys)
	for i := range keys {
		body := fmt.Appendf(nil, `{"name":"bench %d","rate_limit_rpm":%d}`, i, KeyRPM)
		answer, err := d.post(ctx, "/v1/keys", "X-Admin-Key", d.AdminKey, body)
		if err != nil {
			return nil, fmt.Errorf("cannot make API key %d: %w", i, err)
		}
		var made struct {
			APIKey string `json:"api_key"`
		}
		if err := json.Unmarshal(answer, &made); err != nil {
			return nil, fmt.Errorf("cannot make API key %d: %w", i, err)
		}
		keys[i] = made.APIKey
	}
	for i := range w.Policies {
		if err := d.MakePolicy(ctx, keys[i%len(keys)], i); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// MakePolicy makes the i-th policy, with these rules behind its own.
func (d Deployment) MakePolicy(ctx context.Context, key string, i int, more ...map[string]any) error {
	if _, err := d.post(ctx, "/v1/policies", "X-API-Key", key, PolicyBody(i, more...)); err != nil {
		return fmt.Errorf("cannot make policy %d: %w", i, err)
	}
	return nil
}

func (d Deployment) post(ctx context.Context, path, header, key string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set(header, key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusCreated {
		return nil, fmt.Errorf("status %s: %s", strconv.Itoa(response.StatusCode), answer)
	}
	return answer, nil
}
