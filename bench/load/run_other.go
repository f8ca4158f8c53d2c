//go:build !linux

package load

import (
	"context"
	"errors"
)

// Run needs Linux.
func Run(context.Context, Options) (Result, error) {
	return Result{}, errors.New("the load generator needs Linux")
}

// SetApart needs Linux.
func SetApart([]Process) error { return errors.New("the load generator needs Linux") }
