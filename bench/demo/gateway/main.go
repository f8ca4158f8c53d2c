// Command gateway shows in a minute what spendgate gateway does: an agent, the gateway,
// a payment provider that is an MCP server, and a node, all on this machine. It ends
// with an error if the provider's ledger is not what was allowed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/fleet"
	"spendgate/hotpath/client"
)

func main() {
	run := play
	if len(os.Args) > 1 { // started by the gateway
		run = func(ctx context.Context, _ io.Writer) error { return fleet.Provide(ctx, os.Args[1], providerTakes) }
	}
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// stage is what the demonstration runs on.
type stage struct {
	*fleet.Dev
	dir, ledger, file string
	out               io.Writer
	author, ann       *client.Client
}

func play(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "spendgate-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // only left behind
	_, _ = fmt.Fprintln(out, "building spendgate and starting a node ...")
	node, err := fleet.StartDev(ctx, dir)
	if err != nil {
		return err
	}
	s := &stage{Dev: node, dir: dir, ledger: filepath.Join(dir, "ledger"), out: out}
	return errors.Join(s.play(ctx), node.Kill())
}

func (s *stage) play(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	agent, kill, err := s.gateway(ctx)
	if err != nil {
		return err
	}
	s.say("the agent refunds 20 USD, and tries it again:")
	err = errors.Join(s.call(ctx, agent, "charge-1", 2_000, "executed"), s.call(ctx, agent, "charge-1", 2_000, "already_executed"))
	s.say("more than the policy allows:")
	err = errors.Join(err, s.call(ctx, agent, "charge-2", 90_000, "refused"))
	s.say("what people have to approve:")
	err = errors.Join(err, s.call(ctx, agent, "charge-3", 30_000, "pending"), s.approve(ctx),
		s.call(ctx, agent, "charge-3", 30_000, "executed"))
	s.say("the gateway is killed while the provider pays:")
	time.AfterFunc(providerTakes/2, kill)
	_, lost := agent.CallTool(ctx, refund("charge-4", 1_000))
	s.say("  the agent's call ends: %v", lost)
	if err != nil {
		return err
	}
	if agent, kill, err = s.gateway(ctx); err != nil {
		return err
	}
	defer kill()
	s.say("another gateway, the same call: nobody can know, so people are asked, and nothing is paid twice:")
	err = s.call(ctx, agent, "charge-4", 1_000, "in_doubt")
	return errors.Join(err, s.compare(ctx))
}

func (s *stage) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

// prepare makes the policy, keys and the gateway's file.
func (s *stage) prepare(ctx context.Context) error {
	admin, err := client.New(client.Options{BaseURL: s.API, AdminKey: s.AdminKey})
	if err != nil {
		return err
	}
	for role, c := range map[string]**client.Client{"author": &s.author, "approver": &s.ann, "gateway": nil} {
		made, err := admin.CreateKey(ctx, client.KeyRequest{Name: role, Grants: client.Grants{Role: role, Principal: role}})
		if err != nil {
			return err
		}
		if c == nil {
			err = os.WriteFile(filepath.Join(s.dir, "gateway.key"), []byte(made.APIKey), 0o600)
		} else {
			*c, err = client.New(client.Options{BaseURL: s.API, APIKey: made.APIKey})
		}
		if err != nil {
			return err
		}
	}
	_, err = s.author.CreatePolicy(ctx, client.NewPolicy{
		PolicyID: "demo-refunds", Name: "Refunds", Redeem: "required",
		Rules: []client.Rule{
			{
				RuleID: "cap", RuleType: "max_amount", Description: "no refund above 500 USD",
				Parameters: json.RawMessage(`{"limit":500,"currency":"USD"}`),
			},
			{
				RuleID: "ask", RuleType: "escalate_if", Description: "people approve above 200",
				Parameters: json.RawMessage(`{"amount_above":200,"approval":{}}`),
			},
		},
	})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.file = filepath.Join(s.dir, "gateway.yaml")
	file := fmt.Sprintf(`spendgate: {url: %q, key_file: gateway.key}
agent_id: demo-agent
upstreams:
  psp:
    command: [%q, %q]
    tools:
      refund:
        policy_id: demo-refunds
        action_type: refund
        amount: {argument: amount, minor_units: true}
        currency: {value: USD}
        counterparty: {argument: charge}
        same: [charge]
        reference: {result: id}
        wait_seconds: 1
`, s.API, self, s.ledger)
	if err := os.WriteFile(s.file, []byte(file), 0o600); err != nil {
		return err
	}
	if text, err := s.command(ctx, "check", "--accept", s.file).CombinedOutput(); err != nil {
		return fmt.Errorf("the provider's tools are not accepted: %w\n%s", err, text)
	}
	return nil
}

func (s *stage) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, s.Binary, append([]string{"gateway"}, args...)...)
	c.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "SPENDGATE_") })
	return c
}

// gateway starts one, as the agent's host does.
func (s *stage) gateway(ctx context.Context) (*sdk.ClientSession, func(), error) {
	c := s.command(ctx, s.file)
	agent := sdk.NewClient(&sdk.Implementation{Name: "demo-agent", Version: "1"}, nil)
	session, err := agent.Connect(ctx, &sdk.CommandTransport{Command: c}, nil)
	return session, func() { _ = c.Process.Kill() }, err
}

func refund(charge string, cents int) *sdk.CallToolParams {
	return &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": charge, "amount": cents}}
}

// call has the agent call the tool, and fails if that does not end as it should.
func (s *stage) call(ctx context.Context, agent *sdk.ClientSession, charge string, cents int, want string) error {
	r, err := agent.CallTool(ctx, refund(charge, cents))
	if err != nil {
		return err
	}
	first := ""
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok && first == "" {
			first, _, _ = strings.Cut(t.Text, "\n")
		}
	}
	s.say("  refund %s of %d.%02d USD: %v: %s", charge, cents/100, cents%100, r.Meta["spendgate/state"], first)
	if r.Meta["spendgate/state"] != want {
		return fmt.Errorf("%s is %v, not %s", charge, r.Meta["spendgate/state"], want)
	}
	return nil
}

// approve is what Ann does.
func (s *stage) approve(ctx context.Context) error {
	for waiting, err := range s.ann.Waiting(ctx, client.ApprovalQuery{}) {
		if err != nil {
			return err
		}
		a := waiting.Approval
		_, err = s.ann.Approve(ctx, a.ApprovalID, a.ActionHash, "")
		s.say("  Ann approves %s %s to %s", a.Action.Amount, a.Action.Currency, a.Action.Counterparty)
		return err
	}
	return errors.New("no approval waits for Ann")
}

// compare holds the provider's ledger to the record.
func (s *stage) compare(ctx context.Context) error {
	ledger, err := os.ReadFile(s.ledger)
	if err != nil {
		return err
	}
	redeemed := 0
	for c, err := range s.author.AllChecks(ctx, client.CheckQuery{PolicyID: "demo-refunds"}) {
		if err != nil {
			return err
		}
		if c.Redemption != nil {
			redeemed++
		}
	}
	paid := strings.Fields(string(ledger))
	s.say("the provider paid %v, under %d redeemed checks", paid, redeemed)
	unique := slices.Compact(slices.Sorted(slices.Values(paid)))
	if len(unique) != len(paid) || redeemed < len(paid) {
		return errors.New("the ledger is not what was allowed")
	}
	return nil
}

// providerTakes is how long the provider takes to pay.
const providerTakes = 2 * time.Second
