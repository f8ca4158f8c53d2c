// Package pause waits, and stops waiting when it is not needed any more.
package pause

import (
	"context"
	"time"
)

// For waits. It fails with the context's error if that ends before.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
