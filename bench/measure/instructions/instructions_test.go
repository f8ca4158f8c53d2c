package instructions

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
	"spendgate/bench/must"
)

// server answers every client as PostgreSQL does, and sends what clients say to told.
func server(t *testing.T, told chan<- string) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				var text []byte
				for first := true; ; first = false {
					m, waits, err := readMessage(c, first)
					if err != nil {
						return
					}
					if text = append(text, m...); !waits {
						continue
					}
					told <- string(text)
					text = nil
					_, _ = c.Write([]byte("K\x00\x00\x00\x0c\x00\x00\x00\x07\x00\x00\x00\x00Z\x00\x00\x00\x05I"))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func message(kind, text string) string {
	return kind + string(binary.BigEndian.AppendUint32(nil, uint32(len(text)+4))) + text
}

// A recording passes on what clients say, and a replay says the same again.
func TestReplay(t *testing.T) {
	told := make(chan string, 10)
	addr := server(t, told)
	r := must.Get(newRecording(addr))(t)
	first := message("", "startup") + message("p", "secret\x00")
	second := message("P", "SELECT commit_checks($1)") + message("B", "bind") + message("S", "")
	client := must.Get(net.Dial("tcp", r.listener.Addr().String()))(t)
	defer client.Close() //nolint:errcheck // nothing is in progress
	for _, text := range []string{first, second} {
		must.Get(client.Write([]byte(text)))(t)
		if got := <-told; got != text {
			t.Fatalf("the server was told %q, not %q", got, text)
		}
	}
	said := r.take()
	p := newReplay(addr)
	defer p.close()
	must.Do(t, p.say(said, []int{0}))
	if a, b := <-told, <-told; a != first || b != second {
		t.Errorf("replayed %q, %q", a, b)
	}
	if p.pids[0] != 7 {
		t.Errorf("the server's processes are %v, not 7", p.pids)
	}
	if who := recorders(said); !slices.Equal(who, []int{0}) {
		t.Errorf("%v commit checks, not 0", who)
	}
	if who := recorders(said[:1]); who != nil {
		t.Errorf("who commits nothing is counted: %v", who)
	}
	must.Do(t, p.mark([]int{0}))
	if got := <-told; !strings.Contains(got, markFunction) {
		t.Errorf("the mark says %q", got)
	}
}

// A server of the fleet accepts what was said on another connection, its password included.
func TestReplayToServer(t *testing.T) {
	u := must.Get(url.Parse(fleet.TestDatabase(t)))(t)
	server := u.Host
	r := must.Get(newRecording(server))(t)
	u.Host = r.listener.Addr().String()
	conn := must.Get(pgx.Connect(t.Context(), u.String()))(t)
	defer conn.Close(context.Background()) //nolint:errcheck // nothing is in progress
	must.Get(conn.Exec(t.Context(), "SELECT 1"))(t)
	p := newReplay(server)
	defer p.close()
	if err := p.say(r.take(), []int{0}); err != nil || p.pids[0] == 0 {
		t.Errorf("%v, server's processes %v", err, p.pids)
	}
}

// A refusal fails the replay of who commits checks; others are left out from then on.
func TestReplayRefused(t *testing.T) {
	for _, recorders := range [][]int{{0}, nil} {
		theirs, ours := net.Pipe()
		go func() {
			_, _ = theirs.Read(make([]byte, 100))
			_, _ = theirs.Write([]byte(message("E", "no") + message("Z", "I")))
		}()
		p := newReplay("")
		p.conns[0] = ours
		query := exchange{text: []byte(message("Q", "x"))}
		if err := p.say([]exchange{query, query}, recorders); (err != nil) != (recorders != nil) {
			t.Errorf("recorders %v: a refusal gives %v", recorders, err)
		}
	}
}

func TestTake(t *testing.T) {
	name := filepath.Join(t.TempDir(), "7.1")
	must.Do(t, os.WriteFile(name, []byte("events: Ir\nsummary: 1234\n\ntotals: 1234\n"), 0o600))
	e := emulator{filepath.Dir(name)}
	if n, err := e.last(7); n != 1234 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	if _, err := e.last(7); err == nil {
		t.Error("a count is taken twice")
	}
}

func TestRatio(t *testing.T) {
	of := func(node ...float64) (all []cost) {
		for _, n := range node {
			all = append(all, cost{node: n})
		}
		return all
	}
	if got := ratio(of(11, 12, 15), of(10, 10, 10), func(c cost) float64 { return c.node }); got != "1.200 [1.100..1.500]" {
		t.Error(got)
	}
}

func TestParse(t *testing.T) {
	for _, args := range []string{"-rounds=0", "-builds=", "-batch=0", "-batch=8 -checks=7"} {
		if _, err := parse(load.NewCall("instructions", strings.Fields(args), io.Discard, "")); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	if p, err := parse(load.NewCall("instructions", nil, io.Discard, "")); err != nil || len(p.builds) != 2 {
		t.Error(p, err)
	}
}
