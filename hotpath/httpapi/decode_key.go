package httpapi

import (
	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// The requests per minute that a key may have.
const (
	minRateLimit        = 1
	defaultRateLimit    = 100
	defaultMaxRateLimit = 10000
)

// newKey is the body of POST /v1/keys.
type newKey struct {
	name         string
	rateLimitRPM int
}

// decodeNewKey reads it; maxRateLimit is the most that a key may have here.
func decodeNewKey(r *reader, k *newKey, maxRateLimit int) error {
	k.rateLimitRPM = defaultRateLimit
	for r.next() {
		switch r.name {
		case "name":
			k.name = r.text()
		case "rate_limit_rpm":
			if n, present := r.integer(minRateLimit, maxRateLimit); present {
				k.rateLimitRPM = n
			}
		default:
			r.unknown()
		}
	}
	r.requireName(k.name)
	return r.faults.Err()
}

// decodeKeyChange reads the body of PATCH /v1/keys/{key_id}; a blank or null
// field is absent.
func decodeKeyChange(r *reader, c *audit.KeyChange, maxRateLimit int) error {
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
			if n, present := r.integer(minRateLimit, maxRateLimit); present {
				c.RateLimitRPM = &n
			}
		default:
			r.unknown()
		}
	}
	if *c == (audit.KeyChange{}) && len(r.faults) == 0 {
		r.fault("active", "or name or rate_limit_rpm is required: there is nothing to change")
	}
	return r.faults.Err()
}
