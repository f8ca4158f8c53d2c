package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"spendgate/ratelimit"
)

// Probe sends each command that batches send, on names of its own that begin with the given ones and
// expire, and then more commands. It returns an error that lists the commands that the server refuses.
func (s *Servers) Probe(ctx context.Context, server *redis.Client, names []string, more [][]any) error {
	const life = 1000 // ms
	mine := rand.Text()
	pipe := server.Pipeline()
	var sent []*redis.Cmd
	do := func(args ...any) { sent = append(sent, pipe.Do(ctx, args...)) }
	for _, name := range names {
		key := s.Key(name + mine)
		do("set", key, mine, "nx", "get", "px", life)
		do("get", key)
		do("eval", swapScript, 1, key, mine, mine, life, 0)
		do("pttl", key)
		do("eval", releaseScript, 1, key, mine)
	}
	counter := s.Key(ratelimit.KeyPrefix + "probe:" + mine)
	do("incrby", counter, 2)
	do("pexpire", counter, life, "nx")
	do("pexpiretime", counter)
	do("decrby", counter, 1)
	for _, v := range []Value{s.first, s.last} {
		do("getrange", s.Key(v.Name), 0, v.Length-1)
	}
	do("time")
	for _, args := range more {
		do(args...)
	}
	_, _ = pipe.Exec(ctx) // each reply is looked at
	return refusals(sent)
}

// refusals returns which commands were refused, and why the first of them was.
func refusals(sent []*redis.Cmd) error {
	var names []string
	var first error
	for _, cmd := range sent {
		err := cmd.Err()
		var refused redis.Error
		switch {
		case err == nil, errors.Is(err, redis.Nil), WrongType(err): // a name of another type is mended by whoever needs it
			continue
		case !errors.As(err, &refused):
			return err // no answer
		case first == nil:
			first = err
		}
		if name := strings.ToUpper(cmd.Name()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("redis refuses %s: %w", strings.Join(names, ", "), first)
}

// Swap carries a swap out on one server and reports whether it was done.
func (s *Servers) Swap(ctx context.Context, server *redis.Client, w Swap) (bool, error) {
	keep := 0
	if w.KeepLonger {
		keep = 1
	}
	lives, err := server.Eval(ctx, swapScript, []string{s.Key(w.Name)}, w.Old, w.New, w.milliseconds(), keep).Int64Slice()
	return err == nil && lives[0] > 0, err
}
