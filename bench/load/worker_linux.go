package load

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// worker sends and receives on its connections, all from one thread.
type worker struct {
	clock
	target   Target
	workload Workload
	servers  []server // of the connections, in turn
	epoll    int
	conns    []conn
	idle     []int32 // open loop: connections without a request, as a stack
	busy     int
	serial   uint64 // of the next action
	stride   uint64
	step     float64 // open loop: nanoseconds between the requests of this worker; else 0
	sent     uint64  // open loop: requests that were sent or given up
	phase    float64 // open loop: when the first request is due, in steps
	limit    uint64  // of Tally.Right; 0 means none
	tally    *Tally
	action   Action
	out      []byte
}

// clock are the times of a run, as durations since its beginning.
type clock struct {
	start  time.Time
	warmup time.Duration
	end    time.Duration
	drain  time.Duration
}

func (c *clock) now() time.Duration { return time.Since(c.start) }

// conn is a keep-alive connection with at most one request in flight.
type conn struct {
	fd   int
	in   []byte
	n    int
	due  time.Duration // of the request in flight
	busy bool
	want Verdict
}

const (
	readBuffer = 4 << 10 // grows to what the answers need
	maxAnswer  = 4 << 20
	eventBatch = 128
)

// open connects all connections.
func (w *worker) open(connections int) error {
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("cannot make an epoll: %w", err)
	}
	w.conns = make([]conn, connections)
	for i := range w.conns {
		w.conns[i] = conn{fd: -1, in: make([]byte, readBuffer)}
		if err := w.connect(i); err != nil {
			return err
		}
		w.idle = append(w.idle, int32(i))
	}
	return nil
}

func (w *worker) close() {
	for _, c := range w.conns {
		if c.fd >= 0 {
			_ = unix.Close(c.fd)
		}
	}
	_ = unix.Close(w.epoll)
}

func (w *worker) connect(i int) error {
	to := w.servers[i%len(w.servers)]
	fd, err := unix.Socket(to.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot make a socket: %w", err)
	}
	w.conns[i].fd, w.conns[i].n = fd, 0
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
	err = errors.Join(
		unix.Connect(fd, to.addr),
		unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &event),
	)
	if err != nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	return nil
}

// run works until the time is over and the answers are in.
func (w *worker) run() error {
	events := make([]unix.EpollEvent, eventBatch)
	if w.step == 0 {
		now := w.now()
		for i := range w.conns {
			if err := w.send(i, now); err != nil {
				return err
			}
		}
	}
	for {
		now := w.now()
		if now >= w.end && (w.busy == 0 && !w.isDue() || now >= w.end+w.drain) {
			break
		}
		if err := w.sendDue(now); err != nil {
			return err
		}
		n, err := w.wait(events)
		if err != nil {
			return err
		}
		for _, event := range events[:n] {
			if err := w.receive(int(event.Fd)); err != nil {
				return err
			}
		}
		if w.limit > 0 && w.tally.Right >= w.limit {
			w.end = min(w.end, w.now())
		}
	}
	if w.busy > 0 {
		w.tally.fail("no answer in time", uint64(w.busy), nil)
	}
	w.giveUp()
	return nil
}

// due returns when request k of the open loop should start.
func (w *worker) due(k uint64) time.Duration {
	return time.Duration((float64(k) + w.phase) * w.step)
}

// isDue reports whether an open loop has requests left.
func (w *worker) isDue() bool { return w.step > 0 && w.due(w.sent) < w.end }

// sendDue sends the requests of an open loop whose time has come, as long as there are idle
// connections. The others stay due, even after the end.
func (w *worker) sendDue(now time.Duration) error {
	for len(w.idle) > 0 && w.isDue() && w.due(w.sent) <= now {
		i := w.idle[len(w.idle)-1]
		w.idle = w.idle[:len(w.idle)-1]
		w.sent++
		if err := w.send(int(i), w.due(w.sent-1)); err != nil {
			return err
		}
	}
	return nil
}

// giveUp counts the requests that an open loop should have sent and never could.
func (w *worker) giveUp() {
	var unsent uint64
	for w.isDue() {
		if w.due(w.sent) >= w.warmup {
			unsent++
		}
		w.sent++
	}
	if unsent > 0 {
		w.tally.fail("never sent: no connection was free", unsent, nil)
	}
}

// wait returns what arrived, waiting at most until the next request is due.
func (w *worker) wait(events []unix.EpollEvent) (int, error) {
	timeout := w.end - w.now()
	if timeout <= 0 {
		timeout = 10 * time.Millisecond // draining
	}
	if len(w.idle) > 0 && w.isDue() {
		// epoll_wait takes only milliseconds; ppoll on the epoll does better.
		timeout = max(w.due(w.sent)-w.now(), 0)
		polled := []unix.PollFd{{Fd: int32(w.epoll), Events: unix.POLLIN}}
		until := unix.NsecToTimespec(int64(timeout))
		if _, err := unix.Ppoll(polled, &until, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("cannot wait: %w", err)
		}
		timeout = 0
	}
	n, err := unix.EpollWait(w.epoll, events, int((timeout+time.Millisecond-1)/time.Millisecond))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return 0, fmt.Errorf("cannot wait: %w", err)
	}
	return max(n, 0), nil
}

// send sends the next action on a connection.
func (w *worker) send(i int, due time.Duration) error {
	c := &w.conns[i]
	w.workload.Action(w.serial, &w.action)
	w.serial += w.stride
	w.out = w.target.AppendRequest(w.out[:0], &w.action)
	c.due, c.want, c.busy = due, w.action.Want, true
	w.busy++
	// A request is far smaller than an empty socket buffer.
	if n, err := unix.Write(c.fd, w.out); err != nil || n < len(w.out) {
		return w.broken(i, fmt.Sprintf("wrote %d of %d: %v", n, len(w.out), err))
	}
	return nil
}

// receive reads what has arrived on a connection, and ends the request if the answer is complete.
func (w *worker) receive(i int) error {
	c := &w.conns[i]
	n, err := unix.Read(c.fd, c.in[c.n:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil || n == 0 || !c.busy {
		return w.broken(i, fmt.Sprintf("read %d: %v", n, err))
	}
	c.n += n
	r, ok := parseResponse(c.in[:c.n])
	if !ok || c.n > maxAnswer {
		return w.broken(i, "not an answer: "+string(c.in[:min(c.n, maxExample)]))
	}
	if r.end == 0 {
		if c.n == len(c.in) {
			c.in = slices.Grow(c.in, len(c.in))[:2*len(c.in)]
		}
		return nil
	}
	now := w.now()
	w.record(c, r, now)
	c.n = 0
	return w.free(i, now)
}

// free makes a connection ready for its next request, which a closed loop
// sends at once.
func (w *worker) free(i int, now time.Duration) error {
	c := &w.conns[i]
	c.busy = false
	w.busy--
	if w.step > 0 {
		w.idle = append(w.idle, int32(i))
		return nil
	}
	if now < w.end {
		return w.send(i, now)
	}
	return nil
}

// record counts an answer if its request was due in the measured time.
func (w *worker) record(c *conn, r response, now time.Duration) {
	if c.due < w.warmup || c.due >= w.end {
		return
	}
	answer := c.in[:r.end]
	if r.status != 200 {
		w.tally.fail("status "+strconv.Itoa(r.status), 1, answer)
		if bytes.Contains(answer[:r.bodyFrom], []byte("\r\nRetry-After:")) {
			w.tally.Refused.Add(now - c.due)
		}
		return
	}
	if wrong := w.target.Judge(c.want, answer[:r.bodyFrom], answer[r.bodyFrom:]); wrong != "" {
		w.tally.fail(wrong, 1, fmt.Appendf(nil, "want %s %s: %s", c.want.Effect, c.want.RuleID, answer[r.bodyFrom:]))
		return
	}
	w.tally.Right++
	if now < w.end {
		w.tally.InTime++
	}
	w.tally.Latency.Add(now - c.due)
}

// broken counts a failed connection and makes a new one.
func (w *worker) broken(i int, why string) error {
	c := &w.conns[i]
	_ = unix.Close(c.fd)
	c.fd = -1
	now := w.now()
	if c.busy && c.due >= w.warmup && c.due < w.end {
		w.tally.fail("broken connection", 1, []byte(why))
	}
	if now >= w.end {
		// Nothing more is sent: no need to connect.
		if c.busy {
			c.busy = false
			w.busy--
		}
		return nil
	}
	if err := w.connect(i); err != nil {
		return err
	}
	if c.busy {
		return w.free(i, now)
	}
	return nil
}

// server is an address as the kernel takes it.
type server struct {
	addr   unix.Sockaddr
	family int
}

func resolve(addr string) (server, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return server{}, fmt.Errorf("cannot resolve the server's address: %w", err)
	}
	if v4 := tcp.IP.To4(); v4 != nil {
		return server{&unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(v4)}, unix.AF_INET}, nil
	}
	return server{&unix.SockaddrInet6{Port: tcp.Port, Addr: [16]byte(tcp.IP.To16())}, unix.AF_INET6}, nil
}
