package httpapi

import "time"

// getHealth answers GET /health, which shows that the process answers and nothing about its
// dependencies (S27). Its query is ignored: probes add one to bypass caches.
func (a *API) getHealth(x *exchange) error {
	o := newObject(x.out)
	o.text("status", "ok")
	o.text("version", a.version)
	o.time("timestamp", time.Now())
	x.out = o.end()
	return x.answer(200)
}
