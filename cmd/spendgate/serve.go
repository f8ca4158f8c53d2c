package main

import (
	"context"
	"errors"
)

// serve is not wired yet.
func serve(_ context.Context, _ process) error {
	return errors.New("serve: not wired yet")
}
