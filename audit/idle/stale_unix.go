//go:build unix

package idle

import (
	"net"
	"syscall"
)

// Probe looks at one connection, one goroutine at a time, without garbage.
type Probe struct {
	raw    syscall.RawConn // nil if the connection cannot be looked at
	look   func(fd uintptr)
	silent bool
	byte   [1]byte
}

// NewProbe returns the probe of a connection.
func NewProbe(c net.Conn) *Probe {
	p := &Probe{}
	if socket, ok := Plain(c).(syscall.Conn); ok {
		// An error is that the connection is closed: whoever uses it is told so.
		p.raw, _ = socket.SyscallConn()
	}
	p.look = func(fd uintptr) { // unlike Read, whatever the connection's deadline was
		_, _, err := syscall.Recvfrom(int(fd), p.byte[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.silent = err == syscall.EAGAIN
	}
	return p
}

// Stale reports whether the idle connection was closed by its server, or holds
// something that nobody asked for. What it cannot look at is not stale.
func (p *Probe) Stale() bool {
	if p.raw == nil {
		return false
	}
	p.silent = false
	return p.raw.Control(p.look) != nil || !p.silent
}
