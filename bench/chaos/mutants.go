package main

import (
	"context"
	"io"
)

func runMutants(ctx context.Context, o options, out io.Writer) error { return nil }
