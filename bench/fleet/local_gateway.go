package fleet

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
)

// localGateway is the file of the gateway of a local fleet: before the payment provider that the program itself is as
// `fleetctl provider LEDGER`.
const localGateway = `spendgate: {url: %q, key_file: gateway.key}
tokens: agents
listen: %s
metrics: %s
console_url: %s
upstreams:
  psp:
    command: [%q, provider, ledger]
    tools:
      refund:
        policy_id: refund-desk
        action_type: refund
        amount: {argument: amount, minor_units: true}
        currency: {value: USD}
        counterparty: {argument: charge}
        metadata: {days_since_purchase: {value: 3}}
        same: [charge]
        reference: {result: id}
        wait_seconds: 1
`

// newGateway describes the gateway, which starts after its samples are there.
func (l *Local) newGateway(at nodeState) {
	l.Gateway, l.gatewayAt = "http://"+at.API+"/mcp", at
	l.gateway = &Process{
		name: "gateway", path: l.binary, args: []string{"gateway", l.path("gateway.yaml")}, env: Settings{}.environ(),
		logPath: l.path("gateway.log"),
	}
}

// startGateway starts the gateway, again after its end.
func (l *Local) startGateway(ctx context.Context) error {
	return l.ready(ctx, l.gateway, func(ctx context.Context) error {
		return l.gateway.startServing(ctx, "http://"+l.gatewayAt.Ops+"/readyz")
	})
}

// addGateway makes the gateway's key, its file with the lock, and the token of an agent.
func (l *Local) addGateway(ctx context.Context, admin *Client) error {
	_, key, err := admin.createKey(ctx, map[string]any{"name": "gateway", "rate_limit_rpm": 10_000, "role": "gateway", "principal": "gateway"})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	if err := os.MkdirAll(l.path("agents"), 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of tokens: %w", err)
	}
	text := fmt.Sprintf(localGateway, l.API, l.gatewayAt.API, l.gatewayAt.Ops, l.API, self)
	for name, content := range map[string]string{"gateway.key": key, "agents/support-bot": rand.Text(), "gateway.yaml": text} {
		if err := l.write(name, content); err != nil {
			return err
		}
	}
	code, output, err := Run(ctx, l.binary, l.Dir, nil, "gateway", "check", "--accept", l.path("gateway.yaml"))
	if err == nil && code != 0 {
		err = fmt.Errorf("the provider's tools are not accepted: exit code %d\n%s", code, output)
	}
	return err
}
