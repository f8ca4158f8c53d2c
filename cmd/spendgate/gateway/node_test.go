package gateway

import (
	"context"
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
	"spendgate/hotpath/client"
)

// enforced is a service of its own, a provider and a gateway's file, for gateways that are processes.
type enforced struct {
	*service
	provider *provider
	file     string
	environ  []string
}

func startEnforced(t *testing.T, more string) *enforced {
	t.Helper()
	e := &enforced{service: newServiceOn(t, fleet.TestDev(t)), provider: newProvider(t)}
	folder := t.TempDir()
	write(t, folder, "gateway.key", e.key)
	e.file = write(t, folder, "g.yaml", gatewayFile(e.service, e.provider, "spendgate: {url: "+e.API+", key_file: gateway.key}\n", more))
	e.environ = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "SPENDGATE_") })
	accept := e.command("gateway", "check", "--accept", e.file)
	if out, err := accept.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return e
}

func (e *enforced) command(args ...string) *exec.Cmd {
	c := exec.Command(e.Binary, args...)
	c.Env = e.environ
	return c
}

// gateway starts a gateway; kill ends it at once.
func (e *enforced) gateway(t *testing.T) (s *sdk.ClientSession, kill func()) {
	t.Helper()
	c := e.command("gateway", e.file)
	s = connect(t, agentClient(), &sdk.CommandTransport{Command: c}, latestVersion)
	return s, func() { _ = c.Process.Kill() }
}

// TestNodeKilled kills gateways and the node at any step of calls. Each call is made twice at once (G15, G16).
func TestNodeKilled(t *testing.T) {
	for name, more := range map[string]string{"without a key": "", "with a key": withKey} {
		t.Run(name, func(t *testing.T) {
			e := startEnforced(t, more)
			e.provider.slow = 25 * time.Millisecond
			const rounds = 12
			states := make(map[string]int)
			for i := range rounds {
				charge := fmt.Sprintf("ch_%d", i)
				a, killA := e.gateway(t)
				b, killB := e.gateway(t)
				var calls sync.WaitGroup
				for _, s := range []*sdk.ClientSession{a, b} {
					calls.Go(func() { refund(t, s, charge, 100) })
				}
				time.Sleep(rand.N(60 * time.Millisecond))
				killA()
				if i%3 == 0 {
					if err := e.Kill(); err != nil {
						t.Fatal(err)
					}
					if err := e.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(rand.N(60 * time.Millisecond))
				if i%2 == 0 {
					killB()
				}
				calls.Wait()
				last, _ := e.gateway(t)
				state, text := refund(t, last, charge, 100)
				states[state]++
				if allowed := []string{stateExecuted, stateAlready, stateInDoubt}; !slices.Contains(allowed, state) {
					t.Errorf("%s ends as %s: %s", charge, state, text)
				}
				if state == stateInDoubt && more != "" {
					t.Errorf("%s: the provider takes a key, and it is in doubt", charge)
				}
			}
			t.Log(states)
			e.judge(t)
		})
	}
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
		if err != nil {
			t.Fatal(err)
		}
		doubts[c.CheckID] = true
	}
	redeemed := make(map[string]int)
	for c, err := range e.api.AllChecks(context.Background(), client.CheckQuery{PolicyID: e.policy}) {
		if err != nil {
			t.Fatal(err)
		}
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
