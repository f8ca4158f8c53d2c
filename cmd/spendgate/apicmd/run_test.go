package apicmd

import (
	"testing"

	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/cli/clitest"
)

func root() cli.Command { return cli.Command{Sub: Commands()} }

func newFakeNode(t *testing.T, answers ...string) *clitest.Node {
	t.Helper()
	return clitest.NewNode(t, root(), answers...)
}
