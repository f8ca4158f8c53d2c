//go:build unix

package postgres

import (
	"errors"
	"syscall"
)

// stale reports whether an idle connection was closed by the server, or has
// something to say that nobody asked for. Finding that before the first byte
// is sent spares an ErrUnknown after each restart of the server.
func (s *session) stale() bool {
	if s.conn == nil {
		return false
	}
	socket, ok := plain(s.conn).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	silent := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN)
		return true // do not wait
	})
	return err != nil || !silent
}
