package main

import (
	"context"
	"errors"
)

// migrate is not wired yet.
func migrate(_ context.Context, _ process) error {
	return errors.New("migrate: not wired yet")
}
