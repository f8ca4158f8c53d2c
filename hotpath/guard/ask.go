package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/ratelimit"
)

// ask is what one request wants from the next round trip, and the answers.
type ask struct {
	windows marker // that its names belong to
	charge  Charge
	claims  [2]claim
	swap    *swap
	gets    []string

	counted bool            // charge was counted now, not refused from memory
	ends    int64           // when charge's window ends, if that is known
	place   ratelimit.Place // where charge stands in its window
	reading reading
	err     error // nothing is known of this ask's commands
	done    chan struct{}
}

// claim is SET NX PX GET of one name; a claim without name asks nothing.
type claim struct {
	name, value string
	px          time.Duration
	held        string // the value found instead; empty when claimed
	cmd         *redis.StringCmd
}

// swap replaces a value that is still old.
type swap struct {
	name, old, new string
	px             time.Duration
	keepLonger     bool // let the longer of px and the remaining life stand

	done     bool
	life     time.Duration // of new
	lifeLeft time.Duration // of old
	cmd      *redis.Cmd
}

// swapScript is compare-and-set with a life; only takeovers, orphans and lazy
// windows come here, never an ordinary check.
const swapScript = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, 0} end
local left = redis.call('PTTL', KEYS[1])
local px = tonumber(ARGV[3])
if ARGV[4] == '1' then px = math.max(px, left) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', px)
return {px, left}`

// releaseScript deletes a claim that is still the given one.
const releaseScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// queue adds the ask's own commands and gives those of its gets.
func (a *ask) queue(ctx context.Context, pipe redis.Pipeliner) (gets []*redis.StringCmd) {
	for i := range a.claims {
		if c := &a.claims[i]; c.name != "" {
			c.cmd = redis.NewStringCmd(ctx, "set", c.name, c.value, "nx", "get", "px", c.px.Milliseconds())
			_ = pipe.Process(ctx, c.cmd)
		}
	}
	if s := a.swap; s != nil {
		keep := 0
		if s.keepLonger {
			keep = 1
		}
		s.cmd = pipe.Eval(ctx, swapScript, []string{s.name}, s.old, s.new, s.px.Milliseconds(), keep)
	}
	for _, name := range a.gets {
		gets = append(gets, pipe.Get(ctx, name))
	}
	return gets
}

// answers reads the replies to the ask's own commands. One that failed alone
// (a key of another type, a dead shard) fails this ask alone.
func (a *ask) answers(gets []*redis.StringCmd) error {
	for i := range a.claims {
		c := &a.claims[i]
		if c.name == "" {
			continue
		}
		var err error
		if c.held, err = c.cmd.Result(); failed(err) {
			return fmt.Errorf("%w: cannot claim: %w", ErrUnavailable, err)
		}
	}
	if s := a.swap; s != nil {
		lives, err := s.cmd.Int64Slice()
		if err != nil || len(lives) != 2 {
			return fmt.Errorf("%w: cannot swap a claim: %w", ErrUnavailable, err)
		}
		s.done = lives[0] > 0
		s.life, s.lifeLeft = time.Duration(lives[0])*time.Millisecond, time.Duration(lives[1])*time.Millisecond
	}
	a.reading.values = make([]string, 0, len(gets))
	for _, get := range gets {
		value, err := get.Result()
		if failed(err) {
			return fmt.Errorf("%w: cannot read a claim: %w", ErrUnavailable, err)
		}
		a.reading.values = append(a.reading.values, value)
	}
	return nil
}

// releases undo whatever claims the ask may have made. A swap is left as it
// is: it may have replaced a recorded claim, and whoever takes over what it
// wrote asks the store.
func (a *ask) releases() (chores []chore) {
	for _, c := range a.claims {
		if c.name != "" {
			chores = append(chores, release(c.name, c.value))
		}
	}
	return chores
}
