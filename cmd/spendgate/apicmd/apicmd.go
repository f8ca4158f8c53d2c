// Package apicmd has the commands about a running service, which talk to its API: what was checked
// and paid, who may do what, and what is stopped.
package apicmd

import (
	"spendgate/cmd/spendgate/cli"
)

// Commands returns the commands.
func Commands() []cli.Command {
	return []cli.Command{
		freezeCommand(), thawCommand(), freezesCommand(), keysCommand(), sessionsCommand(), loginCommand(), logoutCommand(),
		approvalsCommand(), checksCommand(), paymentsCommand(), budgetsCommand(), grantsCommand(), eventsCommand(), webhooksCommand(),
	}
}
