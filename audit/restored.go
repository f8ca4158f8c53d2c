package audit

import (
	"time"

	"spendgate/audit/spend"
)

// Restored says what a store that was restored from a backup has, and what the restore ended.
type Restored struct {
	Last      spend.ID // of the newest check; zero if there is none
	Epoch     spend.ID // the new epoch
	Webhooks  int      // were active, and are disabled
	Approvals int      // were pending, or approved and unused, and have expired
	Freeze    spend.ID // of everything, until people have compared the record with the provider's
}

// After returns the first millisecond after all checks, whatever the clock says.
func (r *Restored) After() int64 {
	if r.Last.IsZero() {
		return 0
	}
	return r.Last.Time().UnixMilli() + 1
}

// RestoreFreeze is the freeze of everything after a restore: the record lacks what was redeemed after the backup (G16).
func RestoreFreeze() NewFreeze {
	return NewFreeze{
		ID: spend.NewID(time.Now()), Scope: FreezeScope{Kind: FreezeAll}, Seen: -1,
		Reason: "restored from a backup: compare what was carried out since with the payment provider's ledger, then release",
	}
}

// Restorer returns the actor of changes that end something because of a restore.
func Restorer() Actor { return Actor{Principal: "audit restored"} }
