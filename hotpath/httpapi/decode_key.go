package httpapi

import (
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// The requests per minute that a key may have.
const (
	minRateLimit        = 1
	defaultRateLimit    = 100
	defaultMaxRateLimit = 10000
)

// keyBounds are what the fields of a key are judged by.
type keyBounds struct {
	maxRateLimit int // the most that a key may have here
	now          time.Time
}

// decodeNewKey reads the body of POST /v1/keys.
func decodeNewKey(r *reader, k *hotpath.NewKey, b keyBounds) error {
	k.RateLimitRPM = defaultRateLimit
	var given grantsReader
	for r.next() {
		switch r.name {
		case "name":
			k.Name = r.text()
		case "rate_limit_rpm":
			if n, present := r.integer(minRateLimit, b.maxRateLimit); present {
				k.RateLimitRPM = n
			}
		default:
			given.read(r, b.now)
		}
	}
	r.requireName(k.Name)
	given.judge(r)
	k.Grants = given.Grants
	return r.faults.Err()
}

// decodeKeyChange reads the body of PATCH /v1/keys/{key_id}; a blank or null
// active, name or rate_limit_rpm is absent, null clears the others (S29).
func decodeKeyChange(r *reader, c *audit.KeyChange, b keyBounds) error {
	var given grantsReader
	for r.next() {
		switch r.name {
		case "active":
			if active, present := r.boolean(); present {
				c.Active = &active
			}
		case "name":
			if name := r.text(); !spend.Blank(name) {
				r.checkLength("name", name, spend.MaxName)
				c.Name = &name
			}
		case "rate_limit_rpm":
			if n, present := r.integer(minRateLimit, b.maxRateLimit); present {
				c.RateLimitRPM = &n
			}
		default:
			given.read(r, b.now)
		}
	}
	given.judge(r)
	c.Grants = given.change(r)
	if c.Empty() && len(r.faults) == 0 {
		r.fault("active", "or name or rate_limit_rpm is required: there is nothing to change")
	}
	return r.faults.Err()
}
