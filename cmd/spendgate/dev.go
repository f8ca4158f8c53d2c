package main

import (
	"context"
	"errors"
)

// dev is not wired yet.
func dev(_ context.Context, _ process) error {
	return errors.New("dev: not wired yet")
}
