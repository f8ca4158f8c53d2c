package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Install installs Debian packages, if apt-get is available and the caller is root or may use sudo
// without a password; otherwise its error says what to do. It installs the servers' packages only
// if the programs are missing.
func Install(ctx context.Context, log io.Writer, packages ...string) error {
	programs := map[string]func() (string, error){
		"redis-server": findRedis, "postgresql": findPostgres, "haproxy": findHAProxy, "prometheus": findPrometheus,
		"pgbouncer": findPgBouncer,
	}
	missing := slices.DeleteFunc(slices.Clone(packages), func(name string) bool {
		find, known := programs[name]
		if !known {
			return false
		}
		_, err := find()
		return err == nil
	})
	if len(missing) == 0 {
		return nil
	}
	var as []string
	_, err := exec.LookPath("apt-get")
	if err == nil && os.Geteuid() != 0 {
		as = []string{"sudo", "-n"}
		err = exec.CommandContext(ctx, "sudo", "-n", "true").Run()
	}
	all := strings.Join(missing, " ")
	if err != nil {
		return fmt.Errorf("missing: %s. Install it with the system's package manager (Debian: sudo apt-get install %[1]s)", all)
	}
	if _, err := fmt.Fprintf(log, "installing %s with apt-get\n", all); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"apt-get", "update", "-q"},
		// RUNLEVEL=1 keeps the packages from starting servers of their own.
		append([]string{"env", "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-q", "-y", "--no-install-recommends"},
			missing...),
	} {
		command = append(slices.Clone(as), command...)
		if output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot install %s: %w\n%s", all, err, output[max(0, len(output)-2000):])
		}
	}
	var failures []error
	for _, name := range missing {
		if find, known := programs[name]; known {
			_, err := find()
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}
