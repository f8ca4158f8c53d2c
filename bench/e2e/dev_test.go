package e2e_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// devNode is the embedded single node over a folder.
type devNode struct {
	*fleet.Node
	binary, folder, logs string
	admin                string
}

// S28, G1, G2, G3: the embedded single node keeps the same guarantees across
// its own restart and kill -9.
func testDev(t *testing.T, binary string) {
	d := &devNode{binary: binary, folder: filepath.Join(t.TempDir(), "data"), logs: t.TempDir(), admin: "dev-admin-key-0123456789"}
	node, err := fleet.NewNode(binary, "dev", "dev", d.logs, fleet.Settings{"DATA_DIR": d.folder, "ADMIN_KEY": d.admin, "LOG_LEVEL": "debug"})
	must.Do(t, err)
	node.Seen = documented(t)
	d.Node = node
	t.Cleanup(func() {
		must.Do(t, node.Kill())
		if strings.Contains(node.Log(), "DATA RACE") {
			t.Error("DATA RACE")
		}
		if t.Failed() {
			t.Log(tail(node.Log()))
		}
	})
	must.Do(t, node.Start(limited(t, patience)))
	state := d.fill(t)
	d.compare(t, state)
	d.namesItsMode(t)
	d.refusesASecond(t)

	must.Do(t, node.Kill())
	must.Do(t, node.Start(limited(t, patience)))
	d.compare(t, state)

	stopped := time.Now()
	must.Do(t, node.Terminate())
	unreadyAtOnce(t, node)
	terminated(t, node, stopped)
	must.Do(t, node.Start(limited(t, patience)))
	d.compare(t, state)
	if text := node.Log(); strings.Contains(text, d.admin) || strings.Contains(text, state.key) {
		t.Error("the log contains a secret (S25)")
	}
}

// devState is the requests sent to a node, and its answers.
type devState struct {
	key, inactive string
	policy        fleet.Answer
	keyed         fleet.Action
	keyedAnswer   fleet.Answer
	plain         fleet.Action
	plainAnswer   fleet.Answer
}

func (d *devNode) fill(t *testing.T) (s devState) {
	t.Helper()
	admin := d.Admin(d.admin)
	var err error
	_, s.key, err = admin.CreateKey(t.Context(), "kept", plenty)
	must.Do(t, err)
	id, inactive, err := admin.CreateKey(t.Context(), "inactive", plenty)
	must.Do(t, err)
	s.inactive = inactive
	ok(t, must.Get(admin.PatchKey(t.Context(), id, map[string]any{"active": false}))(t), http.StatusOK)
	c := d.Client(s.key)
	s.policy = ok(t, must.Get(c.PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
	s.plain = fleet.Action{AgentID: "dev", PolicyID: standard, ActionType: "spend", Amount: "300.5", Currency: "EUR", Counterparty: "plain"}
	s.keyed = s.plain
	s.keyed.Counterparty, s.keyed.IdempotencyKey = "keyed", "kept"
	s.plainAnswer, s.keyedAnswer = check(t, c, s.plain), check(t, c, s.keyed)
	return s
}

// compare compares the node's answers with the earlier ones.
func (d *devNode) compare(t *testing.T, s devState) {
	t.Helper()
	c := d.Client(s.key)
	if a := ok(t, must.Get(c.Do(t.Context(), http.MethodGet, "/v1/policies/"+standard+"?version=1", nil))(t), 200); !bytes.Equal(a.Body,
		s.policy.Body) {
		t.Errorf("the policy is\n%s\nand was\n%s", a.Body, s.policy.Body)
	}
	if a := check(t, c, s.keyed); !a.Replayed() || !bytes.Equal(a.Body, s.keyedAnswer.Body) {
		t.Errorf("the key is answered by\n%s\nand was by\n%s", a, s.keyedAnswer)
	}
	if r := check(t, c, s.plain).Result(); !r.Duplicate() || named(t, r) != s.plainAnswer.Result().CheckID {
		t.Errorf("the action of\n%s\nis answered %+v", s.plainAnswer, r)
	}
	for _, a := range []fleet.Answer{s.plainAnswer, s.keyedAnswer} {
		if again := ok(t, must.Get(c.GetCheck(t.Context(), a.Result().CheckID))(t), 200); !bytes.Equal(again.Body, a.Body) {
			t.Errorf("answered\n%s\nread again\n%s", a.Body, again.Body)
		}
	}
	if a := must.Get(d.Client(s.inactive).Violations(t.Context(), "limit=1"))(t); a.ErrorCode() != "api_key_inactive" {
		t.Errorf("the inactive key is answered %s", a)
	}
	ok(t, must.Get(c.Violations(t.Context(), "agent_id=dev"))(t), 200)
}

// namesItsMode: at start and in /readyz (S28).
func (d *devNode) namesItsMode(t *testing.T) {
	t.Helper()
	if r := readyOf(t, d.Node); !strings.Contains(r.Mode, "embedded single node") || r.Durability == "" {
		t.Errorf("/readyz: %+v", r)
	}
	if !strings.Contains(d.Log(), "embedded single node") {
		t.Error("it does not say at start what it is")
	}
	var sample []byte
	eventually(t, patience, "there is a sample key", func() bool { // it is made last, after the node began to answer
		sample, _ = os.ReadFile(filepath.Join(d.folder, "sample.key"))
		return len(sample) > 0
	})
	action := fleet.Action{
		AgentID: "a", PolicyID: "refund-desk", ActionType: "refund", Amount: "42.50", Currency: "USD",
		Counterparty: "c", Metadata: map[string]any{"days_since_purchase": json.Number("5")},
	}
	if r := check(t, d.Client(strings.TrimSpace(string(sample))), action).Result(); r.Decision != "allow" && !r.Duplicate() {
		t.Errorf("the sample key and policy answer %+v", r)
	}
}

// refusesASecond: two nodes over one folder would have two different Redis.
func (d *devNode) refusesASecond(t *testing.T) {
	t.Helper()
	code, output, err := fleet.Run(limited(t, patience), d.binary, d.logs,
		fleet.Settings{"DATA_DIR": d.folder, "LISTEN_ADDR": "127.0.0.1:0", "OPS_ADDR": "127.0.0.1:0"}, "dev")
	must.Do(t, err)
	if code == 0 || !strings.Contains(output, "another node uses the data folder") || !strings.Contains(output, d.folder) {
		t.Errorf("a second node over the same folder exited with %d:\n%s", code, output)
	}
}
