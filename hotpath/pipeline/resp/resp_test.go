package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

// serve answers whatever is sent with fixed bytes, in chunks of n.
func serve(t testing.TB, replies string, n int) *Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	go func() { _, _ = io.Copy(io.Discard, server) }()
	go func() {
		for rest := replies; len(rest) > 0; {
			chunk := rest[:min(n, len(rest))]
			if _, err := io.WriteString(server, chunk); err != nil {
				return
			}
			rest = rest[len(chunk):]
		}
	}()
	return NewConn(client)
}

func batch(n int) *Pipeline {
	var p Pipeline
	for range n {
		p.Command("GET")
		p.Text("a")
	}
	return &p
}

func TestCommands(t *testing.T) {
	var p Pipeline
	first := p.Command("TIME")
	second := p.Command("SET")
	p.Text("k\r\n")
	p.Text("")
	p.Text("PX")
	p.Int(-1234567890123)
	p.Prefix = "a:"
	third := p.Script("return 1", "k")
	p.Int(0)
	want := "*1\r\n$4\r\nTIME\r\n" +
		"*5\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n$2\r\nPX\r\n$14\r\n-1234567890123\r\n" +
		"*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\na:k\r\n$1\r\n0\r\n"
	if string(p.out) != want {
		t.Errorf("sent\n%q, want\n%q", p.out, want)
	}
	if first != 0 || second != 1 || third != 2 {
		t.Errorf("commands %d, %d, %d", first, second, third)
	}
	p.Reset()
	if p.Command("TIME") != 0 || string(p.out) != "*1\r\n$4\r\nTIME\r\n" {
		t.Errorf("after Reset: %q", p.out)
	}
}

// Redis takes no length with a leading zero.
func TestLengths(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 99, 100, 101, 12345} {
		var p Pipeline
		p.Command("GET")
		p.Text(strings.Repeat("k", n))
		if want := fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", n, strings.Repeat("k", n)); string(p.out) != want {
			t.Errorf("of %d bytes: sent %q", n, p.out[:min(30, len(p.out))])
		}
	}
}

func TestTooManyArguments(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a tenth argument was taken")
		}
	}()
	var p Pipeline
	p.Command("DEL")
	for range maxArguments {
		p.Text("k")
	}
}

func TestReplies(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	all := "+OK\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n:-42\r\n*2\r\n$10\r\n1795226469\r\n$6\r\n000123\r\n" +
		"*2\r\n:300000\r\n:-1\r\n-READONLY You can't write\r\n*-1\r\n$40960\r\n" + long + "\r\n*0\r\n"
	for _, n := range []int{1, 7, len(all)} {
		p := batch(11)
		must.Do(t, serve(t, all, n).Run(p, time.Now().Add(5*time.Second)))
		for i, want := range map[Index]string{0: "OK", 1: "a\r\nbc", 2: "", 3: "", 8: "", 9: long} {
			if got, err := p.Reply(i).Text(); err != nil || string(got) != want {
				t.Errorf("reply %d: %q, %v", i, got, err)
			}
		}
		if got, err := p.Reply(4).Int(); err != nil || got != -42 {
			t.Errorf("integer %d, %v", got, err)
		}
		if got, err := p.Reply(5).Time(); err != nil || !got.Equal(time.Unix(1795226469, 123_000)) {
			t.Errorf("time %v, %v", got, err)
		}
		if a, b, err := p.Reply(6).Ints(); err != nil || a != 300000 || b != -1 {
			t.Errorf("integers %d, %d, %v", a, b, err)
		}
		refused, ok := errors.AsType[Error](p.Reply(7).Err())
		if !ok || refused != "READONLY You can't write" {
			t.Errorf("refusal %v", p.Reply(7).Err())
		}
		if err := p.Reply(11).Err(); !errors.Is(err, ErrNoReply) {
			t.Errorf("a command that was never sent: %v", err)
		}
	}
}

// A reply of another type is an error, and a refusal is one whatever was
// expected.
func TestUnexpectedReplies(t *testing.T) {
	p := batch(4)
	must.Do(t, serve(t, "+a\r\n:1\r\n-ERR no\r\n*1\r\n:1\r\n", 64).Run(p, time.Now().Add(time.Second)))
	for i := range Index(4) {
		r := p.Reply(i)
		_, textErr := r.Text()
		_, intErr := r.Int()
		_, _, intsErr := r.Ints()
		_, timeErr := r.Time()
		if (textErr == nil) != (i == 0) || (intErr == nil) != (i == 1) || intsErr == nil || timeErr == nil {
			t.Errorf("reply %d: %v, %v, %v, %v", i, textErr, intErr, intsErr, timeErr)
		}
		_, refused := errors.AsType[Error](intsErr)
		if refused != (i == 2) {
			t.Errorf("reply %d: %v", i, intsErr)
		}
	}
}

// A wrong type of value is a fault of its own command only: the other commands are answered.
func TestOddValuesAreOneCommandsFault(t *testing.T) {
	p := batch(4)
	long := fmt.Sprintf("$%d\r\n%s\r\n", 3<<20, strings.Repeat("x", 3<<20))
	must.Do(t, serve(t, ":9223372036854775807\r\n"+long+":-9223372036854775808\r\n+last\r\n", 1<<20).
		Run(p, time.Now().Add(5*time.Second)))
	most, errMost := p.Reply(0).Int()
	least, errLeast := p.Reply(2).Int()
	if most != math.MaxInt64 || least != math.MinInt64 || errMost != nil || errLeast != nil {
		t.Errorf("%d, %d, %v, %v", most, least, errMost, errLeast)
	}
	if _, err := p.Reply(1).Text(); err == nil || !strings.HasPrefix(err.Error(), "TOOLONG ") {
		t.Errorf("a long value: %v", err)
	}
	if last, err := p.Reply(3).Text(); err != nil || string(last) != "last" {
		t.Errorf("%q, %v", last, err)
	}
}

func TestGarbageEndsTheConnection(t *testing.T) {
	for _, garbage := range []string{
		"\r\n", "?\r\n", "$x\r\n", "$3\r\nabcde", "$-2\r\n", "$\r\n", ":\r\n", ":1.5\r\n", ":9999999999999999999\r\n",
		":9223372036854775808\r\n", ":-9223372036854775809\r\n", "$536870913\r\n",
		"*17\r\n", "*1\r\n*1\r\n:1\r\n", "$1048577\r\n", "+ok\n", "+" + strings.Repeat("x", 20<<10) + "\r\n",
		"HTTP/1.1 400 Bad Request\r\n", ">2\r\n+a\r\n+b\r\n", "_\r\n",
	} {
		p := batch(2)
		err := serve(t, "+first\r\n"+garbage, 1<<20).Run(p, time.Now().Add(200*time.Millisecond))
		if err == nil {
			t.Errorf("%.30q is a reply", garbage)
		}
		if text, err := p.Reply(0).Text(); err != nil || string(text) != "first" {
			t.Errorf("%.30q: the reply before it is %q, %v", garbage, text, err)
		}
		if err := p.Reply(1).Err(); !errors.Is(err, ErrNoReply) {
			t.Errorf("%.30q: %v", garbage, err)
		}
	}
}

func TestSilenceEnds(t *testing.T) {
	p := batch(1)
	if err := serve(t, "$5\r\nab", 64).Run(p, time.Now().Add(20*time.Millisecond)); err == nil {
		t.Error("half a reply is one")
	}
}

// loop is a connection that answers every write with the same bytes.
type loop struct {
	net.Conn
	answer []byte
	unread bytes.Reader
}

func (l *loop) Write(b []byte) (int, error) {
	l.unread.Reset(l.answer)
	return len(b), nil
}
func (l *loop) Read(b []byte) (int, error)  { return l.unread.Read(b) }
func (l *loop) SetDeadline(time.Time) error { return nil }

func TestNothingIsAllocated(t *testing.T) {
	c := NewConn(&loop{answer: []byte("*2\r\n$10\r\n1795226469\r\n$6\r\n000123\r\n$-1\r\n:1\r\n$3\r\nabc\r\n")})
	var p Pipeline
	roundTrip := func() {
		p.Reset()
		p.Command("TIME")
		set := p.Command("SET")
		for _, s := range []string{"f:{0}:0123456789", "P|0123", "NX", "GET", "PX"} {
			p.Text(s)
		}
		p.Int(300000)
		p.Command("INCRBY")
		p.Text("r:{0}:0123456789")
		p.Int(17)
		p.Command("GET")
		p.Text("m:{0}")
		must.Do(t, c.Run(&p, time.Now().Add(time.Second)))
		if held, err := p.Reply(set).Text(); err != nil || held != nil {
			t.Fatalf("%q, %v", held, err)
		}
	}
	roundTrip()
	if n := testing.AllocsPerRun(100, roundTrip); n > 0 {
		t.Errorf("%.1f allocations a round trip", n)
	}
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\n1\r\n$1\r\n2\r\n+OK\r\n-ERR\r\n:5\r\n$-1\r\n"))
	f.Add([]byte("$3\r\nabc\r\n*2\r\n:1\r\n:2\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewConn(&loop{answer: b})
		p := batch(6)
		if err := c.Run(p, time.Now().Add(time.Second)); err == nil && len(p.replies) != 6 {
			t.Errorf("%d replies to 6 commands", len(p.replies))
		}
	})
}

// A refusal is found by its code, whichever command it answers.
func TestRefused(t *testing.T) {
	c := serve(t, "+OK\r\n-READONLY You can't write against a read only replica.\r\n$8\r\nREADONLY\r\n", 100)
	p := batch(3)
	must.Do(t, c.Run(p, time.Now().Add(time.Minute)))
	if !p.Refused("READONLY") || p.Refused("OK") || p.Refused("MOVED") {
		t.Error("READONLY was refused, and nothing else")
	}
	p.Reset()
	if p.Refused("READONLY") {
		t.Error("an empty pipeline was refused")
	}
}
