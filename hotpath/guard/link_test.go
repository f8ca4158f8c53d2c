package guard

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A single refusal costs no check; a server that is away is reported as such.
func TestRefusedOnce(t *testing.T) {
	server := miniredis.RunT(t)
	for refusals, fine := range map[int]bool{0: true, 1: true, 2: false} {
		o := redis.Options{Addr: server.Addr(), DialerRetries: 1, MaxRetries: -1}
		o.Dialer = func(_ context.Context, network, addr string) (net.Conn, error) {
			if refusals--; refusals >= 0 {
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return net.Dial(network, addr)
		}
		conn, maker, err := taken(t.Context(), o)
		if (err == nil) != fine || (conn != nil) != fine {
			t.Errorf("fine: %t, got %v", fine, err)
		}
		if maker != nil {
			_ = maker.Close() // of a test
		}
	}
}
