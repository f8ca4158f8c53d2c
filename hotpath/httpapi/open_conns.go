package httpapi

import (
	"container/list"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// openConns are the connections that are open. They are bounded, in all and for
// each address, and a shutdown need not wait for clients that have yet to send a
// request.
type openConns struct {
	most       int                   // beyond which each is refused; 0 is any number
	perAddress int                   // the same for one address
	trusted    func(netip.Addr) bool // addresses without a limit

	failed  tally       // connections that the system could not give
	closing atomic.Bool // set by hurry
	closed  atomic.Bool // no connection is accepted any more
	mu      sync.Mutex
	conns   map[*conn]struct{}
	// Of them without those in excess:
	regular   int
	addresses map[netip.Addr]int // by conn.network
	silent    list.List          // *conn, oldest first: no request came from them yet
}

// add reports whether the connection is to be served. When there are too many, the one that has been
// silent longest is closed to make room; if none is silent, the new one is in excess, and some of
// these are served only to be refused.
func (o *openConns) add(c *conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns, o.addresses = make(map[*conn]struct{}), make(map[netip.Addr]int)
	}
	if o.perAddress > 0 {
		if peer := addressOf(c.RemoteAddr()); !o.trusted(peer) {
			c.network = networkOf(peer)
		}
	}
	crowded := c.network.IsValid() && o.addresses[c.network] >= o.perAddress
	if !crowded && o.full() {
		o.closeSilentLocked()
	}
	c.excess = crowded || o.full()
	if c.excess && len(o.conns)-o.regular >= refusedConnections {
		return false
	}
	o.conns[c] = struct{}{}
	if !c.excess {
		o.regular++
		c.silent = o.silent.PushBack(c)
		if c.network.IsValid() {
			o.addresses[c.network]++
		}
	}
	return true
}

// closeSilent closes the connection that has been silent longest, if there is one.
func (o *openConns) closeSilent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closeSilentLocked()
}

// closeSilentLocked is closeSilent for callers that hold mu.
func (o *openConns) closeSilentLocked() bool {
	oldest := o.silent.Front()
	if oldest == nil {
		return false
	}
	evicted := oldest.Value.(*conn) //nolint:forcetypeassert // it holds nothing else
	o.removeLocked(evicted)
	evicted.mute.Store(true)
	_ = evicted.Conn.Close()
	return true
}

func (o *openConns) full() bool { return o.most > 0 && o.regular >= o.most }

// crowded reports whether half of the connections that may be open are.
func (o *openConns) crowded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.regular > o.most/2
}

func (o *openConns) remove(c *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removeLocked(c)
}

// removeLocked is remove for callers that hold mu.
func (o *openConns) removeLocked(c *conn) {
	if _, open := o.conns[c]; !open {
		return
	}
	delete(o.conns, c)
	if c.excess {
		return
	}
	o.regular--
	o.hearLocked(c)
	if c.network.IsValid() {
		if o.addresses[c.network]--; o.addresses[c.network] == 0 {
			delete(o.addresses, c.network)
		}
	}
}

// hear notes that a request came, whole, over a connection.
func (o *openConns) hear(c *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hearLocked(c)
}

// hearLocked is hear for callers that hold mu.
func (o *openConns) hearLocked(c *conn) {
	if c.silent != nil {
		o.silent.Remove(c.silent)
		c.silent = nil
	}
}

// finishReading is the time that remains, once the service shuts down, for a request that is not fully
// received, or a response that is half sent. Requests in progress have their full time.
const finishReading = time.Second

// hurry gives every connection the time finishReading. Connections that start to wait for their first
// request later get as much: see conn.Read.
func (o *openConns) hurry() {
	o.closing.Store(true)
	o.mu.Lock()
	defer o.mu.Unlock()
	end := time.Now().Add(finishReading)
	for c := range o.conns { // setting deadlines fails only on closed connections
		_ = c.Conn.SetReadDeadline(end)
		_ = c.Conn.SetWriteDeadline(end.Add(finishReading)) // for the refusal of late requests
	}
}
