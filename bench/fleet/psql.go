package fleet

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
)

// As returns the server's URL for another role.
func (p *Postgres) As(role, password string) (string, error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "", fmt.Errorf("cannot read the database's URL: %w", err)
	}
	u.User = url.UserPassword(role, password)
	return u.String(), nil
}

// Script runs a file with psql, its variables set.
func (p *Postgres) Script(ctx context.Context, target, file string, variables map[string]string) error {
	u, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("cannot read the database's URL: %w", err)
	}
	// Arguments are visible to every user.
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	args := []string{"--no-psqlrc", "--quiet", "--file=" + file}
	for name, value := range variables {
		args = append(args, "--set="+name+"="+value)
	}
	psql := exec.CommandContext(ctx, p.Tool("psql"), append(args, u.String())...)
	psql.Env = append(os.Environ(), "PGPASSWORD="+password)
	if output, err := psql.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", file, err, bytes.TrimSpace(output))
	}
	return nil
}
