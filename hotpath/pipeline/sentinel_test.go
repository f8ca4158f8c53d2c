package pipeline

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/bench/must"
	"spendgate/hotpath/guard/embedded"
	"spendgate/hotpath/pipeline/resp"
)

// watcher is a sentinel that names whatever it is told to.
type watcher struct {
	addr  string
	names atomic.Value // host:port, or "" for a master it does not know, or silent
}

const silent = "silent"

func newWatcher(t *testing.T, names string) *watcher {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	w := &watcher{addr: l.Addr().String()}
	w.names.Store(names)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(c)
		}
	}()
	return w
}

// serve answers arrays of bulk strings, one at a time.
func (w *watcher) serve(c net.Conn) {
	defer c.Close() //nolint:errcheck // nothing is lost with it
	in := bufio.NewScanner(c)
	for in.Scan() {
		n := 0
		_, _ = fmt.Sscanf(in.Text(), "*%d", &n)
		var words []string
		for range n {
			in.Scan() // the length
			in.Scan()
			words = append(words, strings.ToLower(in.Text()))
		}
		reply := "-ERR unknown command\r\n"
		if words[0] == "sentinel" {
			switch named := w.names.Load().(string); named {
			case silent:
				continue
			case "":
				reply = "*-1\r\n"
			default:
				host, port, _ := net.SplitHostPort(named)
				reply = fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
			}
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}

// watchedBy connects nothing: masters are only named.
func watchedBy(t *testing.T, names ...string) (*sentinels, []*watcher) {
	t.Helper()
	var watchers []*watcher
	o := redis.UniversalOptions{MasterName: "claims", MaxRetries: -1, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true}
	for _, named := range names {
		w := newWatcher(t, named)
		watchers = append(watchers, w)
		o.Addrs = append(o.Addrs, w.addr)
	}
	s := newSentinels(o)
	t.Cleanup(func() { _ = s.close() })
	return s, watchers
}

// F4: the master is whom most of the sentinels name. One that was cut off, or
// knows nothing, or does not answer, decides nothing.
func TestMasterIsWhomMostSentinelsName(t *testing.T) {
	const a, b = "10.0.0.1:6379", "10.0.0.2:6379"
	for _, test := range []struct {
		names []string
		want  string
	}{
		{[]string{a, a, a}, a},
		{[]string{b, a, a}, a},
		{[]string{a, b, b}, b},
		{[]string{a}, a},
		{[]string{silent, a, a}, a},
		{[]string{silent, "", a}, a},
		{[]string{a, b}, ""},
		{[]string{a, b, ""}, ""},
		{[]string{"", silent}, ""},
	} {
		s, _ := watchedBy(t, test.names...)
		server, err := s.master(t.Context())
		switch {
		case test.want == "" && err == nil:
			t.Errorf("%q: %s", test.names, server.Options().Addr)
		case test.want != "" && (err != nil || server.Options().Addr != test.want):
			t.Errorf("%q: %v, want %s", test.names, err, test.want)
		}
	}
}

// G5: nodes turn to a new master although the old one answers; sentinels that
// answer nothing, or are few, change nothing (F29).
func TestSwitchOfMasterIsNoticed(t *testing.T) {
	const a, b = "10.0.0.1:6379", "10.0.0.2:6379"
	s, watchers := watchedBy(t, a, a, a)
	switched := make(chan struct{}, 100)
	go s.watch(t.Context(), func() { switched <- struct{}{} })
	expect := func(what string, want bool) {
		t.Helper()
		patience := 10 * time.Second
		if !want {
			patience = 3 * watchEvery
		}
		select {
		case <-switched:
			if !want {
				t.Errorf("%s: taken for a switch", what)
			}
		case <-time.After(patience):
			if want {
				t.Fatalf("%s: not noticed", what)
			}
		}
	}
	expect("the first answer", true)
	expect("the same answer", false)
	watchers[0].names.Store(b)
	expect("one of three", false)
	watchers[1].names.Store("")
	expect("no majority", false)
	watchers[1].names.Store(b)
	expect("two of three", true)
}

// F29: when the sentinels name another master, claims go there, although the
// connection to the old one is open and answers.
func TestClaimsFollowTheSentinels(t *testing.T) {
	servers := make(map[string]redis.UniversalOptions) // by address
	for _, name := range []string{"old", "new"} {
		server := must.Get(embedded.Start())(t)
		t.Cleanup(server.Close)
		client := redis.NewUniversalClient(new(server.Options()))
		t.Cleanup(func() { _ = client.Close() })
		must.Do(t, client.Set(t.Context(), "name", name, 0).Err())
		servers[name+":6379"] = server.Options()
	}
	o := redis.UniversalOptions{MasterName: "claims", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if server, ok := servers[addr]; ok {
			return server.Dialer(ctx, network, addr)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	var watchers []*watcher
	for range 3 {
		w := newWatcher(t, "old:6379")
		watchers = append(watchers, w)
		o.Addrs = append(o.Addrs, w.addr)
	}
	var c Servers
	c.connect(Options{Redis: o, Embedded: true}) // embedded: looks at no server
	t.Cleanup(func() { _ = c.Disconnect() })
	asked := func() string {
		p := new(resp.Pipeline)
		i := queueGet(p, "name")
		must.Do(t, c.hot.run(t.Context(), p))
		name := must.Get(p.Reply(i).Text())(t)
		return string(name)
	}
	for deadline := time.Now().Add(3 * watchEvery); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got := asked(); got != "old" {
			t.Fatalf("%q is asked before the switch", got)
		}
	}
	for _, w := range watchers {
		w.names.Store("new:6379")
	}
	for deadline := time.Now().Add(time.Minute); asked() != "new"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the old master is asked for ever")
		}
	}
}
