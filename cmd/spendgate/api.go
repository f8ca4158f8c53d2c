package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spendgate/config"
)

const (
	// apiTimeout is far above the 2 s within which the service answers even
	// when it is in trouble (G7).
	apiTimeout = 30 * time.Second

	// maxAnswer bounds what a wrong address could send.
	maxAnswer = 64 << 20
)

// api sends requests to a running node.
type api struct {
	base   string
	header string // that carries the key
	key    config.Secret
	client http.Client
}

// keyAPI speaks with the API key.
func keyAPI(p process) (*api, error) {
	c, err := config.LoadClient(p.environ)
	if err == nil && c.APIKey == "" {
		err = errors.New("SPENDGATE_API_KEY is not set, nor is SPENDGATE_API_KEY_FILE")
	}
	return newAPI(c.APIURL, "X-API-Key", c.APIKey), err
}

// adminAPI speaks with the admin key.
func adminAPI(p process) (*api, error) {
	c, err := config.LoadClient(p.environ)
	if err == nil && c.AdminKey == "" {
		err = errors.New("SPENDGATE_ADMIN_KEY is not set, nor is SPENDGATE_ADMIN_KEY_FILE")
	}
	return newAPI(c.APIURL, "X-Admin-Key", c.AdminKey), err
}

func newAPI(base, header string, key config.Secret) *api {
	client := http.Client{
		Timeout: apiTimeout,
		// A redirect would carry the key to where nobody meant to send it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &api{base: base, header: header, key: key, client: client}
}

// do sends a request, with body as JSON unless it is nil, and gives the body
// of an answer that is a success.
func (a *api) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set(a.header, string(a.key))
	r.Header.Set("User-Agent", "spendgate/"+version)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := a.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no answer from the node: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("the node's answer broke off: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return nil, refusal(response, answer)
	}
	return answer, nil
}

// refusal tells what the service said (interface, section 7), or that
// something else answered.
func refusal(response *http.Response, body []byte) error {
	var envelope struct {
		Error struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			RequestID string `json:"request_id"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Error.Code == "" {
		return fmt.Errorf("%s: the answer is not spendgate's; is SPENDGATE_API_URL right?", response.Status)
	}
	e := envelope.Error
	text := fmt.Sprintf("%s: %s (%d, %s)", e.Code, printable(e.Message), response.StatusCode, printable(e.RequestID))
	if wait := response.Header.Get("Retry-After"); wait != "" {
		text += "; try again after " + printable(wait) + " s"
	}
	return errors.New(text)
}

// printable keeps a text that others chose from commanding the terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

// writeJSON prints an answer indented, its numbers as they came.
func writeJSON(w io.Writer, answer []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, answer, "", "  "); err != nil {
		return fmt.Errorf("the node's answer is not JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(w)
	return err
}
