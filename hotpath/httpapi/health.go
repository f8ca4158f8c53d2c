package httpapi

import (
	"time"

	"spendgate/hotpath/wire"
)

// getHealth answers GET /health, which shows that the process answers and nothing about its
// dependencies (S27). Its query is ignored: probes add one to bypass caches.
func (a *API) getHealth(x *exchange) error {
	return respond(x, 200, wire.Health{Status: "ok", Version: a.Version, Timestamp: wire.Timestamp{Time: time.Now()}})
}
