package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// takenOver is when another node delivers in the place of one that was killed: after
// the lease, the look for it and a retry.
const takenOver = 90 * time.Second

// testWebhooks: events are delivered, signed, over kill -9 of the node that delivers
// them; receivers that do not take them hold up nobody; and what leads inside is
// refused (S52).
func testWebhooks(t *testing.T, binary string) {
	f := startFleet(t, fleet.Options{Binary: binary, Nodes: 1, Settings: fleet.Settings{
		"WEBHOOK_PRIVATE_ADDRESSES": "true", "WEBHOOK_IN_FLIGHT": "1", // two at once are of two nodes
	}})
	admin := f.Nodes[0].Admin(f.AdminKey)
	_, key, err := admin.CreateKey(t.Context(), "test", plenty)
	must.Do(t, err)
	node := f.Nodes[0].Client(key)
	ok(t, must.Get(node.PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
	refuse(t, node, "before") // which is not delivered

	good := receive(t, func(http.ResponseWriter, *http.Request) {})
	slow := receive(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	moved := receive(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, good.URL, http.StatusTemporaryRedirect)
	})
	gone := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	for _, r := range []*eventReceiver{good, slow, moved, gone} {
		r.create(t, admin)
	}
	var want []string
	for i := range 5 {
		want = append(want, refuse(t, node, fmt.Sprint("first-", i)))
	}
	eventually(t, patience, "all are delivered", func() bool { return good.has(want) })
	if got := good.received(); len(got) != len(want) {
		t.Errorf("received %v, want %v: once each, and nothing from before", got, want)
	}
	eventually(t, patience, "what is gone is disabled", func() bool {
		shown := ok(t, must.Get(admin.Do(t.Context(), "GET", gone.path, nil))(t), http.StatusOK)
		return strings.Contains(string(shown.Body), `"status":"disabled"`)
	})
	for r, says := range map[*eventReceiver]string{moved: "status 307: redirects are not followed", slow: ""} {
		eventually(t, patience, "the failure is logged", func() bool {
			return strings.Contains(string(ok(t, must.Get(admin.Do(t.Context(), "GET", r.path+"/deliveries", nil))(t), http.StatusOK).Body), says)
		})
	}

	// The node is killed while it delivers; another has to go on.
	good.hold()
	want = append(want, refuse(t, node, "held"))
	eventually(t, patience, "a delivery is in flight", good.holds)
	second := must.Get(f.AddNode(nil))(t)
	must.Do(t, second.Start(limited(t, patience)))
	must.Do(t, f.Nodes[0].Kill())
	good.free()
	node, admin = second.Client(key), second.Admin(f.AdminKey)
	for i := range 5 {
		want = append(want, refuse(t, node, fmt.Sprint("second-", i)))
	}
	rotated := ok(t, must.Get(admin.Do(t.Context(), "POST", good.path+"/rotate", nil))(t), http.StatusOK)
	good.verify(t, rotated)
	eventually(t, takenOver, "all are delivered by the other node", func() bool { return good.has(want) })
	if good.twice {
		t.Error("two nodes delivered at once")
	}
	third := must.Get(f.AddNode(fleet.Settings{"WEBHOOK_PRIVATE_ADDRESSES": "false"}))(t)
	must.Do(t, third.Start(limited(t, patience)))
	ok(t, must.Get(third.Admin(f.AdminKey).Do(t.Context(), "POST", "/v1/webhooks", good.body()))(t), http.StatusUnprocessableEntity)
	for _, n := range f.Nodes {
		if strings.Contains(n.Log(), "whsec_") {
			t.Errorf("the log of %s has a secret", n.Name)
		}
	}
}

// refuse has a check blocked and returns its identifier.
func refuse(t *testing.T, c *fleet.Client, counterparty string) string {
	t.Helper()
	return check(t, c, fleet.Action{
		AgentID: "agent", PolicyID: standard, ActionType: "refund", Amount: "900", Currency: "USD", Counterparty: counterparty,
	}).Result().CheckID
}

// eventReceiver takes violations.
type eventReceiver struct {
	*httptest.Server
	path string // of the webhook

	mu        sync.Mutex
	verifiers []*standardwebhooks.Webhook
	checks    []string // in the order of their events
	active    int
	twice     bool          // two requests were at work at once
	held      chan struct{} // nil, or until it is closed no request is answered
}

func receive(t *testing.T, answer http.HandlerFunc) *eventReceiver {
	t.Helper()
	r := new(eventReceiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return // the node is gone
		}
		r.mu.Lock()
		r.active++
		r.twice = r.twice || r.active > 1
		held := r.held
		if !slices.ContainsFunc(r.verifiers, func(v *standardwebhooks.Webhook) bool { return v.Verify(body, request.Header) == nil }) {
			t.Errorf("no secret verifies %s %v", body, request.Header)
		}
		r.mu.Unlock()
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.active--
		}()
		if held != nil {
			select {
			case <-held:
			case <-request.Context().Done():
			}
		}
		if request.Context().Err() != nil {
			return
		}
		answer(w, request)
		var e struct {
			Data struct {
				CheckID string `json:"check_id"`
			}
		}
		must.Check(t, json.Unmarshal(body, &e))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.checks = append(r.checks, e.Data.CheckID)
	}))
	t.Cleanup(r.CloseClientConnections)
	return r
}

func (r *eventReceiver) body() any {
	return map[string]any{"url": r.URL, "event_types": []string{"violation.recorded"}}
}

func (r *eventReceiver) create(t *testing.T, admin *fleet.Client) {
	t.Helper()
	a := ok(t, must.Get(admin.Do(t.Context(), "POST", "/v1/webhooks", r.body()))(t), http.StatusCreated)
	var w struct {
		ID string `json:"webhook_id"`
	}
	must.Do(t, json.Unmarshal(a.Body, &w))
	r.path = "/v1/webhooks/" + w.ID
	r.verify(t, a)
}

// verify has it verify by the secret in an answer.
func (r *eventReceiver) verify(t *testing.T, a fleet.Answer) {
	t.Helper()
	var w struct{ Secret string }
	must.Do(t, json.Unmarshal(a.Body, &w))
	v := must.Get(standardwebhooks.NewWebhook(w.Secret))(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifiers = []*standardwebhooks.Webhook{v}
}

func (r *eventReceiver) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.checks)
}

func (r *eventReceiver) has(want []string) bool {
	got := r.received()
	return !slices.ContainsFunc(want, func(id string) bool { return !slices.Contains(got, id) })
}

func (r *eventReceiver) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = make(chan struct{})
}

func (r *eventReceiver) holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active > 0
}

func (r *eventReceiver) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.held)
	r.held = nil
}
