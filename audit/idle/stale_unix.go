//go:build unix

package idle

import (
	"errors"
	"net"
	"syscall"
)

// Stale reports whether an idle connection was closed by its server, or holds
// something that nobody asked for. What it cannot look at is not stale.
func Stale(c net.Conn) bool {
	socket, ok := Plain(c).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	silent := false
	err = raw.Control(func(fd uintptr) { // unlike Read, whatever the connection's deadline was
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN)
	})
	return err != nil || !silent
}
