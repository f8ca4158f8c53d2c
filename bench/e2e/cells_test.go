package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// cell adds the header by which a client names its cell.
type cell []string

func (c cell) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header["Spendgate-Cell"] = c
	return http.DefaultTransport.RoundTrip(r)
}

// testCells runs two deployments behind deploy/haproxy/cells.cfg: a request reaches the cell that it names and no
// other, and the loss of one cell is no loss of the other.
func testCells(t *testing.T, binary string) {
	var cells [2]*fleet.Fleet
	var keys [2]string
	for i, name := range []string{"a", "b"} {
		f := startFleet(t, fleet.Options{Binary: binary, Nodes: 1, Settings: fleet.Settings{"TRUSTED_PROXIES": "127.0.0.1", "DEPLOYMENT": name}})
		cells[i] = f
		var err error
		_, keys[i], err = f.Nodes[0].Admin(f.AdminKey).CreateKey(t.Context(), name, plenty)
		must.Do(t, err)
		ok(t, must.Get(f.Nodes[0].Client(keys[i]).PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
	}
	balancer, err := fleet.LaunchCells(t.TempDir(), cells[0].Nodes[0], cells[1].Nodes[0])
	must.Do(t, err)
	t.Cleanup(func() { _ = balancer.Kill() })
	ask := func(key string, a fleet.Action, names ...string) fleet.Answer {
		t.Helper()
		c := fleet.Client{Base: balancer.API, Key: key, HTTP: &http.Client{Transport: cell(names), Timeout: time.Minute}, Seen: balancer.Seen}
		answer, err := c.Check(t.Context(), a)
		if err != nil {
			return fleet.Answer{} // HAProxy does not listen yet
		}
		return answer
	}
	action := fleet.Action{
		AgentID: "bot", PolicyID: standard, ActionType: "refund", Amount: "10", Currency: "USD", Counterparty: "shop", IdempotencyKey: "order-1",
	}
	var first [2]fleet.Answer
	eventually(t, patience, "both cells answer", func() bool {
		first[0], first[1] = ask(keys[0], action, "a"), ask(keys[1], action, "b")
		return first[0].Status == http.StatusOK && first[1].Status == http.StatusOK
	})
	if first[0].Result().CheckID == first[1].Result().CheckID {
		t.Error("both cells have one check")
	}
	ok(t, ask(keys[0], action, "b"), http.StatusUnauthorized)
	for _, names := range [][]string{nil, {"c"}, {""}, {"a", "b"}, {"a,b"}} {
		if a := ask(keys[0], action, names...); a.Status != http.StatusBadRequest || a.ErrorCode() != "bad_request" {
			t.Errorf("cell %q: %s", names, a)
		}
	}

	must.Do(t, cells[0].Nodes[0].Kill())
	must.Do(t, cells[0].Postgres.Kill())
	again := action
	again.IdempotencyKey, again.Counterparty = "order-2", "another"
	if a := ask(keys[0], again, "a"); a.Status != http.StatusServiceUnavailable {
		t.Errorf("the cell that is down: %s", a)
	}
	ok(t, ask(keys[1], again, "b"), http.StatusOK)
	must.Do(t, cells[0].Postgres.Start(t.Context()))
	must.Do(t, cells[0].Nodes[0].Start(t.Context()))
	eventually(t, patience, "the cell is back", func() bool { return ask(keys[0], action, "a").Status == http.StatusOK })
	if got, want := ask(keys[0], action, "a").Result().CheckID, first[0].Result().CheckID; got != want {
		t.Errorf("the retry in its cell: %s, want %s", got, want)
	}
}
