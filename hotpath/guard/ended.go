package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"spendgate/audit/spend"
)

// removalStep is how many names Redis looks at in one command, for which checks wait.
const removalStep = 500

var errEpochOver = errors.New("the epoch whose windows are loaded is over")

// removeScript deletes names if the marker is still the given one, and keeps the loader's lease. An epoch whose marker was
// published and is another one now never comes back, so its names prove nothing. A node whose own epoch is over meanwhile
// must not delete the names of the next one (F138).
const removeScript = `if redis.call('GETRANGE', KEYS[1], 0, 255) ~= ARGV[1] then return -1 end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
if #KEYS == 2 then return 0 end
return redis.call('DEL', unpack(KEYS, 3))`

// removeEnded removes the claims of all epochs but one, in small steps. It comes before the loading, so that Redis never has
// two copies of the live windows. What a late command of an ended epoch sets afterwards expires, or goes with the next epoch.
func (g *Guard) removeEnded(ctx context.Context, server *redis.Client, m marker) (removed int, err error) {
	pattern := globEscape.Replace(g.redis.Key("")) + "[kf]:{0}:*"
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var names []string
		if names, cursor, err = server.Scan(ctx, cursor, pattern, removalStep).Result(); err != nil {
			return removed, fmt.Errorf("cannot list the names of ended epochs: %w", err)
		}
		n, err := server.Eval(ctx, removeScript, g.removal(m, names), m.String(), loaderLease.Milliseconds()).Int()
		if err == nil && n < 0 {
			err = errEpochOver
		}
		if err != nil {
			return removed, fmt.Errorf("cannot remove the names of ended epochs: %w", err)
		}
		removed += n
	}
	return removed, nil
}

// removal returns the names for removeScript: marker, lease, and those of the claims that belong to another epoch.
func (g *Guard) removal(m marker, claims []string) []string {
	keys := []string{g.redis.Key(markerKey), g.redis.Key(loaderName(m.epoch))}
	for _, name := range claims {
		epoch, _, found := strings.Cut(name[len(g.redis.Key(keyPrefix)):], ":") // both prefixes have one length
		if id, err := spend.ParseID(epoch, ""); found && err == nil && id != m.epoch {
			keys = append(keys, name)
		}
	}
	return keys
}

// globEscape makes a name a pattern that matches only the name.
var globEscape = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)
