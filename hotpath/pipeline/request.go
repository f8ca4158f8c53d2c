package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/hotpath/pipeline/resp"
	"spendgate/ratelimit"
)

// Request is one caller's part of the next batch, with its replies.
type Request struct {
	Hit  ratelimit.Hit
	Sets [2]Set
	Swap *Swap
	Gets []string

	Now         time.Time       // by Redis' clock; zero when the batch was not answered
	First, Last string          // the values of Options.First and Last
	Void        bool            // Options.Verify refused the batch: no reply means anything
	Counted     bool            // Hit was counted now, not refused from memory: then nothing is set (F15)
	Place       ratelimit.Place // of Hit in its window
	Values      []string        // of Gets, in order; empty for absent, NotText for another type

	ends     int64    // when Hit's window ends, if that is known
	position position // of the request in its counter's batch
	err      error    // nothing is known of this request's commands
	sent     resp.Index
}

// Set is SET NX PX GET of one name; a Set without name does nothing.
type Set struct {
	Name, Value string
	Life        time.Duration
	Found       string // the value that the name has instead; empty when it was set
	sent        resp.Index
}

// Swap replaces a value that is still Old.
type Swap struct {
	Name, Old, New string
	Life           time.Duration
	KeepLonger     bool // let the longer of Life and the remaining life stand

	Done     bool
	NewLife  time.Duration // of New
	LifeLeft time.Duration // of Old
	sent     resp.Index
}

// NotText stands for a value of a type other than text, or for a text that is too long.
const NotText = "?"

// ErrWrongType is the error of a request whose Set or Swap met a value for which WrongType is true.
var ErrWrongType = errors.New("a name in Redis holds no text")

// WrongType reports whether Redis refused a command because a name has a value that is not text, or is
// too long.
func WrongType(err error) bool {
	var text string
	if refused, ok := errors.AsType[resp.Error](err); ok {
		text = string(refused)
	} else if refused, ok := errors.AsType[redis.Error](err); ok {
		text = refused.Error()
	}
	return strings.HasPrefix(text, "WRONGTYPE ") || strings.HasPrefix(text, "TOOLONG ")
}

// typed marks an error for which WrongType is true.
func typed(err error) error {
	if WrongType(err) {
		return fmt.Errorf("%w: %w", ErrWrongType, err)
	}
	return err
}

// swapScript is compare-and-set with a life; no ordinary request needs it.
const swapScript = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, 0} end
local left = redis.call('PTTL', KEYS[1])
local px = tonumber(ARGV[3])
if ARGV[4] == '1' then px = math.max(px, left) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', px)
return {px, left}`

// releaseScript deletes a name that still has the given value.
const releaseScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// queue adds the request's own commands.
func (r *Request) queue(p *resp.Pipeline) {
	for i := range r.Sets {
		if s := &r.Sets[i]; s.Name != "" {
			s.queue(p)
		}
	}
	if r.Swap != nil {
		r.Swap.queue(p)
	}
	for i, name := range r.Gets {
		sent := queueGet(p, name)
		if i == 0 {
			r.sent = sent
		}
	}
}

func (s *Set) queue(p *resp.Pipeline) {
	s.sent = p.Command("SET")
	p.Key(s.Name)
	p.Text(s.Value)
	p.Text("NX")
	p.Text("GET")
	p.Text("PX")
	p.Int(s.Life.Milliseconds())
}

func (s *Swap) queue(p *resp.Pipeline) resp.Index {
	s.sent = p.Script(swapScript, s.Name)
	p.Text(s.Old)
	p.Text(s.New)
	p.Int(s.milliseconds())
	keep := int64(0)
	if s.KeepLonger {
		keep = 1
	}
	p.Int(keep)
	return s.sent
}

// milliseconds returns the life for PX, which takes no 0.
func (s *Swap) milliseconds() int64 { return max(s.Life.Milliseconds(), 1) }

func queueGet(p *resp.Pipeline, name string) resp.Index {
	i := p.Command("GET")
	p.Key(name)
	return i
}

// queueStart reads the beginning of a value, which is cheap for a value of any kind.
func queueStart(p *resp.Pipeline, v Value) resp.Index {
	i := p.Command("GETRANGE")
	p.Key(v.Name)
	p.Int(0)
	p.Int(v.Length - 1)
	return i
}

func queueRelease(p *resp.Pipeline, name, value string) resp.Index {
	i := p.Script(releaseScript, name)
	p.Text(value)
	return i
}

// read takes the replies to the request's own commands. One that failed alone
// (a name of another type) fails this request alone.
func (r *Request) read(p *resp.Pipeline) error {
	for i := range r.Sets {
		s := &r.Sets[i]
		if s.Name == "" {
			continue
		}
		found, err := p.Reply(s.sent).Text()
		if err != nil {
			return fmt.Errorf("cannot claim: %w", typed(err))
		}
		s.Found = string(found)
	}
	if s := r.Swap; s != nil {
		life, left, err := p.Reply(s.sent).Ints()
		if err != nil {
			return fmt.Errorf("cannot swap a claim: %w", typed(err))
		}
		s.Done = life > 0
		s.NewLife, s.LifeLeft = time.Duration(life)*time.Millisecond, time.Duration(left)*time.Millisecond
	}
	for i := range r.Gets {
		value, err := p.Reply(r.sent + resp.Index(i)).Text()
		if WrongType(err) {
			value, err = []byte(NotText), nil
		}
		if err != nil {
			return fmt.Errorf("cannot read a claim: %w", err)
		}
		r.Values = append(r.Values, string(value))
	}
	return nil
}

// releases returns the commands that undo what the request may have set. A swap is not undone, since
// it may have replaced a value that must stay.
func (r *Request) releases() (due []deferred) {
	for _, s := range r.Sets {
		if s.Name != "" {
			due = append(due, release(s.Name, s.Value))
		}
	}
	return due
}
