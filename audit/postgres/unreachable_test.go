package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// long is a check whose commit the proxy recognises.
func long(f spend.Fence) *spend.Check {
	c := minimal(f)
	c.Action.ReasonText = strings.Repeat("x", commitLength)
	return c
}

// TestAnswerLost loses the answer to a commit that happened: unknown, and
// behind a fence found (F3).
func TestAnswerLost(t *testing.T) {
	for how, lose := range map[string]func(*proxy) error{
		"silently": func(p *proxy) error { p.lose(0); return nil },
		// As PgBouncer does when its connection to the server breaks (F46).
		"by a pooler": func(p *proxy) error {
			return p.answerInstead(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "server conn crashed?"})
		},
	} {
		t.Run(how, func(t *testing.T) { answerLost(t, lose) })
	}
}

// repeated does again what has a bound of time and failed: a busy machine may keep it too long, but not
// each time, as the store would.
func repeated(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for range 5 {
		if err = try(); err == nil {
			return
		}
	}
	t.Errorf("%s, each of 5 times: %v", what, err)
}

// waitFor asks until the answer is true.
func waitFor(t *testing.T, url, what, question string) {
	t.Helper()
	if err := until(t, connect(t, url), question); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func until(t *testing.T, conn *pgx.Conn, question string) error {
	for deadline := time.Now().Add(time.Minute); ; {
		var yes bool
		if err := conn.QueryRow(t.Context(), question).Scan(&yes); err != nil || yes {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("it takes too long")
		}
	}
}

// TestUnreachable wants certain failures, soon: nobody listens, or somebody
// who never answers.
func TestUnreachable(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	mute := listener.Addr().String() // accepts, and that is all
	for what, hosts := range map[string]string{"nobody": "127.0.0.1:1", "mute": mute, "both": "127.0.0.1:1," + mute + "," + mute} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := open(t, "postgres://postgres@"+hosts+"/postgres?sslmode=disable", false)
			for doing, call := range map[string]func(context.Context) error{
				"commit": func(ctx context.Context) error { return audittest.Record(ctx, s, minimal(spend.Fence{})) },
				"fence":  func(ctx context.Context) error { return s.Fence(ctx, spend.ID{}) },
				"ping":   s.Ping,
				"key":    func(ctx context.Context) error { _, err := s.KeyByHash(ctx, spend.Hash{}); return err },
			} {
				repeated(t, doing, func() error {
					start := time.Now()
					if err := call(t.Context()); !errors.Is(err, audit.ErrUnavailable) {
						t.Errorf("%s: got %v, want ErrUnavailable", doing, err)
					}
					if took := time.Since(start); took > 1800*time.Millisecond {
						return fmt.Errorf("took %v", took)
					}
					return nil
				})
			}
		})
	}
}
