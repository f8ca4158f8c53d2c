package postgres

import (
	"fmt"

	"spendgate/audit"
)

// byActor completes the call of a function whose last argument is the actor.
func byActor(call string, by audit.Actor, args ...any) textStatement {
	n := len(args)
	call += fmt.Sprintf("ROW($%d, $%d, $%d, $%d, $%d, $%d)::actor)", n+1, n+2, n+3, n+4, n+5, n+6)
	return textCall(call, append(args, by.Kind(), orNull(by.KeyID), orNull(by.Principal), orNull(by.Credential), orNull(by.RequestID),
		orNull(by.Address))...)
}
