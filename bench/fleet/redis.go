package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server. A restart keeps port, password and folder.
type Redis struct {
	*Process
	URL  string
	Addr string
	endpoint
	// Client reads and changes the nodes' data directly.
	Client *redis.Client
}

// StartRedis starts a Redis with its files in dir. A restart loses everything not saved by an
// explicit SAVE.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	r, err := newRedis("redis", dir, endpoint{Password: rand.Text()}, nil)
	if err != nil {
		return nil, err
	}
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, r.Log()), r.Close())
	}
	return r, nil
}

// newRedis prepares a server with its files in dir.
func newRedis(name, dir string, at endpoint, lines []string, args ...string) (*Redis, error) {
	path, err := findRedis()
	if err != nil {
		return nil, err
	}
	if at, err = at.onFreePort(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot start Redis: %w", err)
	}
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\nrequirepass %s\ndir %s\n%s\n", at.Port, at.Password, dir, strings.Join(lines, "\n"))
	if len(args) == 0 { // a sentinel does not accept the next two settings
		text = "save \"\"\nappendonly no\n" + text
	}
	// The password goes in a file, because arguments are visible to every user.
	configured := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(configured, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("cannot start Redis: %w", err)
	}
	return &Redis{
		endpoint: at,
		Process:  &Process{name: name, path: path, args: append([]string{configured}, args...), logPath: filepath.Join(dir, name+".log")},
		URL:      fmt.Sprintf("redis://default:%s@%s/0", at.Password, loopback(at.Port)),
		Addr:     loopback(at.Port),
		Client:   redis.NewClient(&redis.Options{Addr: loopback(at.Port), Password: at.Password, DialTimeout: time.Second}),
	}, nil
}

// Start starts the server, again after its end, and waits until it answers.
func (r *Redis) Start(ctx context.Context) error {
	if err := r.Launch(); err != nil {
		return err
	}
	return r.await(ctx, func(ctx context.Context) error { return r.Client.Ping(ctx).Err() })
}

// Close ends the server.
func (r *Redis) Close() error {
	_ = r.Client.Close() // the client holds nothing that could be lost
	return r.Kill()
}

// RemoveSaved removes what SAVE left, so that the next start is empty.
func (r *Redis) RemoveSaved() error {
	err := os.Remove(filepath.Join(filepath.Dir(r.logPath), "dump.rdb"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove the saved copy: %w", err)
	}
	return nil
}
