package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// Dev is the embedded single node, which needs no servers.
type Dev struct {
	*Node
	Binary   string
	Data     string // the node's folder
	Key      string // the sample API key
	AdminKey string
}

// TestDev compiles the service and starts a single node, which is killed when the test ends.
func TestDev(t testing.TB, more ...Settings) *Dev {
	t.Helper()
	d := must.Get(StartDev(t.Context(), t.TempDir(), more...))(t)
	t.Cleanup(func() {
		if err := d.Kill(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// StartDev compiles the service and starts a single node, all in dir, and waits
// until it has made its keys and policies. Kill ends it.
func StartDev(ctx context.Context, dir string, more ...Settings) (*Dev, error) {
	binary, err := Build(ctx, dir, BuildOptions{})
	if err != nil {
		return nil, err
	}
	return StartDevOf(ctx, binary, dir, more...)
}

// StartDevOf is like StartDev, with a service that is compiled already.
func StartDevOf(ctx context.Context, binary, dir string, more ...Settings) (*Dev, error) {
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make a folder for the node: %w", err)
	}
	settings := Settings{"DATA_DIR": data}
	for _, m := range more {
		maps.Copy(settings, m)
	}
	n, err := NewNode(binary, "dev", "dev", data, settings)
	if err != nil {
		return nil, err
	}
	if err := n.Start(ctx); err != nil {
		return nil, errors.Join(err, n.Kill())
	}
	d := &Dev{Node: n, Binary: binary, Data: data}
	if err := d.readKeys(ctx); err != nil {
		return nil, errors.Join(err, n.Kill())
	}
	return d, nil
}

// readKeys waits for the sample key, which is written last.
func (d *Dev) readKeys(ctx context.Context) error {
	err := d.await(ctx, func(context.Context) error {
		content, err := os.ReadFile(filepath.Join(d.Data, "sample.key"))
		d.Key = strings.TrimSpace(string(content))
		if err == nil && d.Key == "" {
			err = fs.ErrNotExist // the file is still being written
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("no sample key: %w\n%s", err, d.Log())
	}
	content, err := os.ReadFile(filepath.Join(d.Data, "admin.key"))
	d.AdminKey = strings.TrimSpace(string(content))
	return err
}
