package auditcmd

import (
	"testing"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
)

func root() cli.Command { return cli.Command{Sub: []cli.Command{Command()}} }

func runWith(t *testing.T, environ []string, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, root(), environ, stdin, args...)
}
