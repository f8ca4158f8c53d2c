package pause_test

import (
	"context"
	"errors"
	"testing"

	"spendgate/audit/pause"
)

// Whoever waits learns that its context has ended, also if the time is over then.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := pause.For(ctx, 0); err != nil {
		t.Error(err)
	}
	cancel()
	for range 1000 {
		if err := pause.For(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
}
