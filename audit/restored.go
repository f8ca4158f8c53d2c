package audit

import "spendgate/audit/spend"

// Restored is what a store that was restored from a backup holds, and what ended by it.
type Restored struct {
	Last      spend.ID // of the newest check; zero when there is none
	Epoch     spend.ID // the new one
	Webhooks  int      // were active, and are disabled
	Approvals int      // were pending, or approved and unused, and have expired
}

// After returns the first millisecond behind all checks, whatever the clock says.
func (r *Restored) After() int64 {
	if r.Last.IsZero() {
		return 0
	}
	return r.Last.Time().UnixMilli() + 1
}

// Restorer returns the actor of what ends by a restore.
func Restorer() Actor { return Actor{Principal: "audit restored"} }
