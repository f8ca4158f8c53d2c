package guard

import (
	"fmt"
	"time"

	"spendgate/hotpath/pipeline/resp"
	"spendgate/ratelimit"
)

// ask is what one request wants from the next round trip, and the answers.
type ask struct {
	windows marker // that its names belong to
	charge  ratelimit.Charge
	claims  [2]claim
	swap    *swap
	gets    []string

	counted bool            // charge was counted now, not refused from memory: then nothing is claimed (F15)
	ends    int64           // when charge's window ends, if that is known
	share   share           // of the count that charge is part of
	place   ratelimit.Place // where charge stands in its window
	reading reading
	err     error      // nothing is known of this ask's commands
	sent    resp.Index // of the first get
}

// share is one request's part in a count of several: the nth, from 0.
type share struct {
	counting int
	nth      int64
}

// claim is SET NX PX GET of one name; a claim without name asks nothing.
type claim struct {
	name, value string
	px          time.Duration
	held        string // the value found instead; empty when claimed
	sent        resp.Index
}

// swap replaces a value that is still old.
type swap struct {
	name, old, new string
	px             time.Duration
	keepLonger     bool // let the longer of px and the remaining life stand

	done     bool
	life     time.Duration // of new
	lifeLeft time.Duration // of old
	sent     resp.Index
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

// queue adds the ask's own commands.
func (a *ask) queue(p *resp.Pipeline) {
	for i := range a.claims {
		if c := &a.claims[i]; c.name != "" {
			c.queue(p)
		}
	}
	if a.swap != nil {
		a.swap.queue(p)
	}
	for i, name := range a.gets {
		sent := queueGet(p, name)
		if i == 0 {
			a.sent = sent
		}
	}
}

func (c *claim) queue(p *resp.Pipeline) {
	c.sent = p.Command("SET")
	p.Key(c.name)
	p.Text(c.value)
	p.Text("NX")
	p.Text("GET")
	p.Text("PX")
	p.Int(c.px.Milliseconds())
}

func (s *swap) queue(p *resp.Pipeline) resp.Index {
	s.sent = p.Script(swapScript, s.name)
	p.Text(s.old)
	p.Text(s.new)
	p.Int(max(s.px.Milliseconds(), 1)) // PX takes no 0
	keep := int64(0)
	if s.keepLonger {
		keep = 1
	}
	p.Int(keep)
	return s.sent
}

func queueGet(p *resp.Pipeline, name string) resp.Index {
	i := p.Command("GET")
	p.Key(name)
	return i
}

// queueStart reads the beginning of a value. Whatever else stands in its place,
// it costs little to read.
func queueStart(p *resp.Pipeline, name string, length int64) resp.Index {
	i := p.Command("GETRANGE")
	p.Key(name)
	p.Int(0)
	p.Int(length - 1)
	return i
}

func queueRelease(p *resp.Pipeline, name, value string) resp.Index {
	i := p.Script(releaseScript, name)
	p.Text(value)
	return i
}

// answers reads the replies to the ask's own commands. One that failed alone
// (a key of another type) fails this ask alone.
func (a *ask) answers(p *resp.Pipeline) error {
	for i := range a.claims {
		c := &a.claims[i]
		if c.name == "" {
			continue
		}
		held, err := p.Reply(c.sent).Text()
		if err != nil {
			return fmt.Errorf("%w: cannot claim: %w", ErrUnavailable, foreignValue(err))
		}
		c.held = string(held)
	}
	if s := a.swap; s != nil {
		life, left, err := p.Reply(s.sent).Ints()
		if err != nil {
			return fmt.Errorf("%w: cannot swap a claim: %w", ErrUnavailable, foreignValue(err))
		}
		s.done = life > 0
		s.life, s.lifeLeft = time.Duration(life)*time.Millisecond, time.Duration(left)*time.Millisecond
	}
	for i := range a.gets {
		value, err := p.Reply(a.sent + resp.Index(i)).Text()
		if mistyped(err) {
			value, err = []byte(noText), nil
		}
		if err != nil {
			return fmt.Errorf("%w: cannot read a claim: %w", ErrUnavailable, err)
		}
		a.reading.values = append(a.reading.values, string(value))
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
