package httpapi

import (
	"testing"

	"spendgate/bench/access"
)

func TestRolesAndRoutes(t *testing.T) {
	access.Compare(t, "http://"+serveOn(t, New(realOptions(t))), adminKey)
}
