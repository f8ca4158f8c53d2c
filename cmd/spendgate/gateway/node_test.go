package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// enforced is a service of its own, a provider and the files of gateways that are processes, one for each node.
type enforced struct {
	*service
	nodes    []*fleet.Node
	provider *provider
	file     string // of the first node's gateway
	files    []string
	environ  []string
}

func startEnforced(t *testing.T, more string) *enforced {
	t.Helper()
	dev := must.Get(fleet.StartDevOf(t.Context(), must.Get(startNode())(t).Binary, t.TempDir()))(t)
	t.Cleanup(func() { _ = dev.Kill() })
	return enforcedOn(t, dev, more, dev.Node)
}

// startTwo is like startEnforced, with two nodes over PostgreSQL and Redis.
func startTwo(t *testing.T, more string) *enforced {
	t.Helper()
	binary := must.Get(startNode())(t).Binary
	f := must.Get(fleet.Start(t.Context(), fleet.Options{Binary: binary, Nodes: 2}))(t)
	t.Cleanup(func() {
		must.Check(t, f.Close())
	})
	_, key, err := f.Nodes[0].Admin(f.AdminKey).CreateKeyOf(t.Context(), "all", 10_000, "full")
	must.Do(t, err)
	return enforcedOn(t, &fleet.Dev{Node: f.Nodes[0], Binary: binary, Key: key, AdminKey: f.AdminKey}, more, f.Nodes...)
}

func enforcedOn(t *testing.T, dev *fleet.Dev, more string, nodes ...*fleet.Node) *enforced {
	t.Helper()
	e := &enforced{service: newServiceOn(t, dev), provider: newProvider(t), nodes: nodes}
	e.environ = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "SPENDGATE_") })
	folder := t.TempDir()
	write(t, folder, "gateway.key", e.key)
	for i, n := range nodes {
		head := "spendgate: {url: " + n.API + ", key_file: gateway.key}\n"
		file := write(t, folder, fmt.Sprintf("g-%d.yaml", i), gatewayFile(e.service, e.provider, head, more))
		e.files = append(e.files, file)
		if out, err := e.command("gateway", "check", "--accept", file).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	e.file = e.files[0]
	return e
}

func (e *enforced) command(args ...string) *exec.Cmd {
	c := exec.Command(e.Binary, args...)
	c.Env = e.environ
	return c
}

// gateway starts a gateway of a node; kill ends it at once.
func (e *enforced) gateway(t *testing.T, i int) (s *sdk.ClientSession, kill func()) {
	t.Helper()
	c := e.command("gateway", e.files[i%len(e.files)])
	s = connect(t, agentClient(), &sdk.CommandTransport{Command: c}, latestVersion)
	return s, func() { _ = c.Process.Kill() }
}

// TestNodeKilled kills gateways and nodes at any step of calls. Each call is made twice at once, by gateways of different nodes
// (G15, G16).
func TestNodeKilled(t *testing.T) {
	for name, more := range map[string]string{"without a key": "", "with a key": withKey} {
		t.Run(name+", one node", func(t *testing.T) { killed(t, startEnforced(t, more), more != "", 6) })
		t.Run(name+", two nodes", func(t *testing.T) { killed(t, startTwo(t, more), more != "", 3) })
	}
}

func killed(t *testing.T, e *enforced, withKey bool, rounds int) {
	e.provider.slow = 25 * time.Millisecond
	if !withKey {
		e.provider.behave = func(int) (pays bool, code string, err error) {
			switch rand.N(8) {
			case 0:
				return true, "", errors.New("the provider failed after it paid")
			case 1:
				return false, "card_declined", nil
			default:
				return true, "", nil
			}
		}
	}
	states := make(map[string]int)
	for i := range rounds {
		charge := fmt.Sprintf("ch_%d", i)
		a, killA := e.gateway(t, 0)
		b, killB := e.gateway(t, 1)
		var calls sync.WaitGroup
		for _, s := range []*sdk.ClientSession{a, b} {
			calls.Go(func() { refund(t, s, charge, 100) })
		}
		time.Sleep(rand.N(60 * time.Millisecond))
		killA()
		if i%3 == 0 {
			n := e.nodes[i/3%len(e.nodes)]
			must.Do(t, n.Kill())
			must.Do(t, n.Start(t.Context()))
		}
		time.Sleep(rand.N(60 * time.Millisecond))
		if i%2 == 0 {
			killB()
		}
		calls.Wait()
		last, _ := e.gateway(t, i)
		state, text := refund(t, last, charge, 100)
		states[state]++
		allowed := []string{stateExecuted, stateAlready, stateInDoubt}
		if declined := strings.HasPrefix(text, "Declined"); !slices.Contains(allowed, state) && !declined {
			t.Errorf("%s ends as %s: %s", charge, state, text)
		}
		if state == stateInDoubt && withKey {
			t.Errorf("%s: the provider takes a key, and it is in doubt", charge)
		}
	}
	t.Log(states)
	e.judge(t)
}

// judge compares the provider's ledger with the record: nothing is paid twice or without a
// redemption, every executed check was paid, and every check in doubt is listed.
func (e *enforced) judge(t *testing.T) {
	t.Helper()
	paid := make(map[string]int)
	for _, entry := range e.provider.paid() {
		paid[strings.Fields(entry)[0]]++
	}
	doubts := make(map[string]bool)
	for c, err := range e.api.AllChecks(context.Background(), client.CheckQuery{PolicyID: e.policy, Outcome: "in_doubt"}) {
		must.Do(t, err)
		doubts[c.CheckID] = true
	}
	redeemed := make(map[string]int)
	for c, err := range e.api.AllChecks(context.Background(), client.CheckQuery{PolicyID: e.policy}) {
		must.Do(t, err)
		charge := c.Action.Counterparty
		if c.Redemption != nil {
			redeemed[charge]++
		}
		switch {
		case c.Outcome != nil && c.Outcome.Status == stateExecuted && paid[charge] != 1:
			t.Errorf("%s was executed, and paid %d times", charge, paid[charge])
		case c.Redemption != nil && c.Outcome == nil && !doubts[c.CheckID] && c.Redemption.RedeemedAt.Add(15*time.Minute).Before(time.Now()):
			t.Errorf("%s is redeemed without an outcome, and not in doubt", charge)
		}
	}
	for charge, n := range paid {
		if n != 1 || redeemed[charge] < 1 {
			t.Errorf("%s was paid %d times, by %d redemptions", charge, n, redeemed[charge])
		}
	}
}
