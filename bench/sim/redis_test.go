package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fakeRedis implements the commands that the guard sends, and no others.
type fakeRedis struct {
	fault func(connection int, command []string) fault // drawn before each command

	mu      sync.Mutex
	runID   string
	values  map[string]entry
	conns   map[net.Conn]bool
	last    int
	unknown []string
}

type entry struct {
	value   string
	expires time.Time // zero is never
}

// fault is what happens to one command.
type fault struct {
	delay  time.Duration
	before bool          // the connection breaks, and the command is not carried out
	after  bool          // the command is carried out, and the connection breaks
	late   time.Duration // the connection breaks, and the command is carried out this much later
	full   bool          // the command is refused, if it may take memory
}

func newFakeRedis() *fakeRedis {
	return &fakeRedis{runID: "run-0", values: make(map[string]entry), conns: make(map[net.Conn]bool)}
}

// dial returns one end of a connection and serves the other.
func (r *fakeRedis) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.conns[server] = true
	go r.serve(server, r.last)
	return client, nil
}

// flush empties the server.
func (r *fakeRedis) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.values)
}

// restart sets another run ID and restores an earlier state.
func (r *fakeRedis) restart(runID string, values map[string]entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runID, r.values = runID, values
	for c := range r.conns {
		_ = c.Close()
	}
	clear(r.conns)
}

func (r *fakeRedis) snapshot() map[string]entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.values)
}

// serve reads ahead, since nothing lies between the ends of a pipe: a client
// that is still sending must not be waited for.
func (r *fakeRedis) serve(c net.Conn, number int) {
	commands := make(chan []string, 1<<12)
	go func() {
		defer close(commands)
		in := bufio.NewReader(c)
		for {
			command, err := readCommand(in)
			if err != nil {
				return
			}
			commands <- command
		}
	}()
	defer func() {
		_ = c.Close()
		for range commands { // until the reader has seen the break
		}
	}()
	for command := range commands {
		f := r.fault(number, command)
		time.Sleep(f.delay)
		if f.late > 0 {
			time.AfterFunc(f.late, func() { _ = r.do(command) })
			return
		}
		if f.before {
			return
		}
		reply := "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
		if !f.full || !takesMemory(command) {
			reply = r.do(command)
		}
		if f.after {
			return
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// takesMemory reports whether a full server refuses the command: of the scripts, those that set
// values.
func takesMemory(command []string) bool {
	switch strings.ToUpper(command[0]) {
	case "SET", "SETNX", "INCRBY":
		return true
	case "EVAL":
		return strings.Contains(command[1], "'SET'")
	default:
		return false
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	line := func(prefix string) (int, error) {
		text, err := in.ReadString('\n')
		if err != nil || !strings.HasPrefix(text, prefix) {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		return strconv.Atoi(strings.TrimSpace(text[1:]))
	}
	n, err := line("*")
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := line("$")
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		words[i] = string(text[:size])
	}
	return words, nil
}

func bulk(s string) string   { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
func number(n int64) string  { return fmt.Sprintf(":%d\r\n", n) }
func pair(a, b int64) string { return "*2\r\n" + number(a) + number(b) }

const (
	null = "$-1\r\n"
	ok   = "+OK\r\n"
)

func (r *fakeRedis) get(name string) (entry, bool) {
	e, found := r.values[name]
	if found && !e.expires.IsZero() && !time.Now().Before(e.expires) {
		delete(r.values, name)
		return entry{}, false
	}
	return e, found
}

func (e entry) left() int64 {
	if e.expires.IsZero() {
		return -1
	}
	return time.Until(e.expires).Milliseconds()
}

func ms(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * time.Millisecond
}

func (r *fakeRedis) do(words []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch name := strings.ToUpper(words[0]); name {
	case "PING":
		return "+PONG\r\n"
	case "CLIENT": // SETNAME
		return ok
	case "INFO":
		return bulk("redis_version:7.2.5\r\nmaxmemory_policy:noeviction\r\nrole:master\r\nrun_id:" + r.runID + "\r\n")
	case "TIME":
		return "*2\r\n" + bulk(strconv.FormatInt(now.Unix(), 10)) + bulk(strconv.Itoa(now.Nanosecond()/1000))
	case "GET":
		if e, found := r.get(words[1]); found {
			return bulk(e.value)
		}
		return null
	case "GETRANGE": // of the whole value
		e, _ := r.get(words[1])
		return bulk(e.value)
	case "SET":
		return r.set(words)
	case "SETNX":
		return r.set([]string{"SET", words[1], words[2], "NX"})
	case "DEL":
		delete(r.values, words[1])
		return number(1)
	case "SCAN": // all at once
		names := slices.Sorted(maps.Keys(r.values))
		names = slices.DeleteFunc(names, func(name string) bool { return name[0] != 'k' && name[0] != 'f' })
		reply := "*2\r\n" + bulk("0") + fmt.Sprintf("*%d\r\n", len(names))
		for _, name := range names {
			reply += bulk(name)
		}
		return reply
	case "INCRBY":
		e, _ := r.get(words[1])
		n, _ := strconv.ParseInt(e.value, 10, 64)
		by, _ := strconv.ParseInt(words[2], 10, 64)
		e.value = strconv.FormatInt(n+by, 10)
		r.values[words[1]] = e
		return number(n + by)
	case "PEXPIRE":
		e, found := r.get(words[1])
		if !found || len(words) > 3 && !e.expires.IsZero() {
			return number(0)
		}
		e.expires = now.Add(ms(words[2]))
		r.values[words[1]] = e
		return number(1)
	case "PEXPIRETIME":
		if e, found := r.get(words[1]); found && !e.expires.IsZero() {
			return number(e.expires.UnixMilli())
		}
		return number(-1)
	case "PTTL":
		if e, found := r.get(words[1]); found {
			return number(e.left())
		}
		return number(-2)
	case "EVAL":
		if n, _ := strconv.Atoi(words[2]); n > 1 {
			return r.remove(words[3:3+n], words[3+n])
		}
		return r.eval(words[1], words[3], words[4:])
	default:
		if name != "HELLO" {
			r.unknown = append(r.unknown, name)
		}
		return "-ERR unknown command '" + name + "'\r\n"
	}
}

func (r *fakeRedis) set(words []string) string {
	var nx, get bool
	e := entry{value: words[2]}
	for i := 3; i < len(words); i++ {
		switch strings.ToUpper(words[i]) {
		case "NX":
			nx = true
		case "GET":
			get = true
		case "PX":
			i++
			e.expires = time.Now().Add(ms(words[i]))
		case "EX":
			i++
			e.expires = time.Now().Add(1000 * ms(words[i]))
		}
	}
	old, found := r.get(words[1])
	if !nx || !found {
		r.values[words[1]] = e
	}
	switch {
	case get && found:
		return bulk(old.value)
	case get, nx && found:
		return null
	default:
		return ok
	}
}

// eval recognises the scripts by the commands that they call.
func (r *fakeRedis) eval(script, name string, args []string) string {
	e, found := r.get(name)
	switch {
	case strings.Contains(script, "'PTTL'"): // compare and set, with an expiry
		if !found || e.value != args[0] {
			return pair(0, 0)
		}
		left, px := e.left(), ms(args[2]).Milliseconds()
		if args[3] == "1" {
			px = max(px, left)
		}
		r.values[name] = entry{args[1], time.Now().Add(time.Duration(px) * time.Millisecond)}
		return pair(px, left)
	case strings.Contains(script, "'DECRBY'"): // refund
		if !found || e.expires.IsZero() || strconv.FormatInt(e.expires.UnixMilli(), 10) != args[0] {
			return number(0)
		}
		return r.decrease(name, e, args[1])
	case strings.Contains(script, "'DEL'"): // release
		if !found || e.value != args[0] {
			return number(0)
		}
		delete(r.values, name)
		return number(1)
	case strings.Contains(script, "'GETRANGE'"): // the marker
		if e.value != args[0] {
			return number(0)
		}
		r.values[name] = entry{value: args[1]}
		return number(1)
	default:
		r.unknown = append(r.unknown, script)
		return "-ERR unknown script\r\n"
	}
}

// remove deletes the claims of ended epochs: the script's names begin with the marker and the lease.
func (r *fakeRedis) remove(names []string, seen string) string {
	if e, _ := r.get(names[0]); e.value != seen {
		return number(-1)
	}
	for _, name := range names[2:] {
		delete(r.values, name)
	}
	return number(int64(len(names) - 2))
}

func (r *fakeRedis) decrease(name string, e entry, by string) string {
	n, _ := strconv.ParseInt(e.value, 10, 64)
	d, _ := strconv.ParseInt(by, 10, 64)
	e.value = strconv.FormatInt(n-d, 10)
	r.values[name] = e
	return number(n - d)
}

// chance returns a random source for one connection or node, so that its faults do not depend on
// what others do meanwhile.
func chance(seed uint64, who int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(who))) }

func (r *fakeRedis) put(name string, e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[name] = e
}
