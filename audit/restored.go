package audit

import "spendgate/audit/spend"

// Restored says what a store that was restored from a backup has, and what the restore ended.
type Restored struct {
	Last      spend.ID // of the newest check; zero if there is none
	Epoch     spend.ID // the new epoch
	Webhooks  int      // were active, and are disabled
	Approvals int      // were pending, or approved and unused, and have expired
}

// After returns the first millisecond after all checks, whatever the clock says.
func (r *Restored) After() int64 {
	if r.Last.IsZero() {
		return 0
	}
	return r.Last.Time().UnixMilli() + 1
}

// Restorer returns the actor of changes that end something because of a restore.
func Restorer() Actor { return Actor{Principal: "audit restored"} }
