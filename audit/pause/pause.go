// Package pause waits, and stops waiting when it is not needed any more.
package pause

import (
	"context"
	"time"
)

// For waits. It fails with the context's error if that ends before, or has ended when the time is over.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
