package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// StoreFile is the store's file in the data folder of a single node.
const StoreFile = "audit.db"

// LockFolder creates the data folder, private to its owner, and locks it against
// other nodes: two would have two different in-process Redis servers.
func LockFolder(path string) (unlock func(), err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make SPENDGATE_DATA_DIR: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot look at SPENDGATE_DATA_DIR: %w", err)
	}
	if info.Mode()&fs.ModeSticky != 0 { // such as /tmp
		return nil, fmt.Errorf("SPENDGATE_DATA_DIR %s is shared with other users: name a folder in it", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make SPENDGATE_DATA_DIR private: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock SPENDGATE_DATA_DIR: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another node uses the data folder %s: %w", path, errors.Join(err, f.Close()))
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}
