package load

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"spendgate/bench/must"
)

// answering is a server that answers every request with its handler's text, and
// its target.
type answering struct {
	t      *testing.T
	addr   string
	handle func(n int) (answer string)
}

const rightAnswer = `{"decision":"allow","violated_rule_id":null}`

func startAnswering(t *testing.T, handle func(n int) string) *answering {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	s := &answering{t: t, addr: l.Addr().String(), handle: handle}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *answering) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // a test's
	in := bufio.NewReader(conn)
	for n := 0; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_ = r.Body.Close()
		if _, err := conn.Write([]byte(s.handle(n))); err != nil {
			return
		}
	}
}

// ok frames a body as an answer.
func ok(body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// anyAnswer takes any answer for right.
type anyAnswer struct{ Target }

func (anyAnswer) Judge(Verdict, []byte, []byte) string { return "" }

func (s *answering) options() Options {
	return Options{
		Addrs: []string{s.addr}, Workload: DefaultWorkload(1), Connections: 1, Duration: 300 * time.Millisecond,
		Target: func() Target { return anyAnswer{NewSpendgate(make([]string, 200))} },
	}
}

// Goal: an open loop charges the server for every request that waited while it
// stalled. Method: one connection, whose first answer takes 200 ms. Of the 40
// requests that are due in that time, only one was sent; all must be late.
func TestOpenLoopIsCorrectedForLateStarts(t *testing.T) {
	const stall, rate = 200 * time.Millisecond, 200
	s := startAnswering(t, func(n int) string {
		if n == 0 {
			time.Sleep(stall)
		}
		return ok(rightAnswer)
	})
	o := s.options()
	o.Rate = rate
	r := must.Get(Run(t.Context(), o))(t)
	const due = 60 // in 300 ms
	if r.Right != due || r.Failures() != 0 {
		t.Fatalf("%d right answers and failures %v, want %d and none", r.Right, r.Errors, due)
	}
	// Half of the requests that the stall delayed had more than 100 ms of it left: 20 of 60 are
	// over 100 ms, so the 70th percentile is. Latency reports p50, which is at least the wait of
	// request 30: 200 ms - 150 ms.
	if r.Latency.P50 < 45 || r.Latency.P90 < 150 || r.Latency.Max < 200 {
		t.Errorf("latencies %+v hide the stall", r.Latency)
	}
	if r.Loop != "open" {
		t.Errorf("loop is %q", r.Loop)
	}
}

// Requests that could never be sent are counted as failures.
func TestOpenLoopCountsWhatWasNeverSent(t *testing.T) {
	s := startAnswering(t, func(int) string {
		time.Sleep(350 * time.Millisecond)
		return ok(rightAnswer)
	})
	o := s.options()
	o.Rate, o.Drain = 100, 100*time.Millisecond
	r := must.Get(Run(t.Context(), o))(t)
	if r.Right+r.Failures() != 30 || r.Failures() < 28 {
		t.Errorf("%d right and failures %v, want 30 in all and hardly any right", r.Right, r.Errors)
	}
}

func TestClosedLoopCountsOnlyRightAnswers(t *testing.T) {
	s := startAnswering(t, func(n int) string {
		switch n % 4 {
		case 0:
			return ok(rightAnswer)
		case 1:
			return "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
		case 2:
			return ok(`{"decision":"perhaps"}`)
		default:
			return "HTTP/1.1 200 OK\r\nIdempotent-Replayed: true\r\nContent-Length: " + strconv.Itoa(len(rightAnswer)) + "\r\n\r\n" + rightAnswer
		}
	})
	o := s.options()
	o.Connections, o.Workers = 3, 2
	o.Target = func() Target { return allowing{NewSpendgate(make([]string, 200))} }
	r := must.Get(Run(t.Context(), o))(t)
	if r.Right == 0 || r.Errors["status 429"] == 0 || r.Errors["wrong decision"] == 0 || r.Errors["replay of another check"] == 0 {
		t.Errorf("%d right, errors %v", r.Right, r.Errors)
	}
	if len(r.Errors) != 3 || r.NextSerial < r.Right+r.Failures() {
		t.Errorf("errors %v, next serial %d", r.Errors, r.NextSerial)
	}
	if _, ok := r.CPU[Generator]; !ok {
		t.Error("the generator's processor time is missing")
	}
}

// allowing expects every action to be allowed.
type allowing struct{ *Spendgate }

func (a allowing) Judge(_ Verdict, head, body []byte) string {
	return a.Spendgate.Judge(Verdict{Effect: Allow}, head, body)
}

// A server that hangs up costs its request and no more.
func TestBrokenConnectionsAreReplaced(t *testing.T) {
	s := startAnswering(t, func(n int) string {
		if n == 2 {
			return "nonsense\r\n\r\n"
		}
		return ok(rightAnswer)
	})
	o := s.options()
	o.Requests = 20
	r := must.Get(Run(t.Context(), o))(t)
	if r.Right < 20 || r.Errors["broken connection"] == 0 {
		t.Errorf("%d right, errors %v", r.Right, r.Errors)
	}
}

func TestRunRefusesNonsense(t *testing.T) {
	if _, err := Run(t.Context(), Options{Workers: 3, Rate: -1}); err == nil {
		t.Error("accepted")
	}
}
