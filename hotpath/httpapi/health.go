package httpapi

import "time"

// getHealth answers GET /health, which tells that the process answers and
// nothing of what it depends on (S27). Its query is nobody's business: probes
// add to it to get past caches.
func (a *API) getHealth(x *exchange) error {
	o := newObject(x.out)
	o.text("status", "ok")
	o.text("version", a.version)
	o.time("timestamp", time.Now())
	x.out = o.end()
	return x.answer(200)
}
