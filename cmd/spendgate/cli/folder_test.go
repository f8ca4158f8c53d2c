package cli

import (
	"os"
	"path/filepath"
	"testing"

	"spendgate/bench/must"
)

// The data folder is made private, whatever it was before. One that is shared
// with other users, such as /tmp, is refused.
func TestDataFolderIsPrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	for _, before := range []os.FileMode{0, 0o755, 0o700} {
		if before != 0 {
			must.Do(t, os.Chmod(folder, before))
		}
		unlock := must.Get(LockFolder(folder))(t)
		unlock()
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("after %v: %v, %v", before, info.Mode(), err)
		}
	}
	must.Do(t, os.Chmod(folder, 0o777|os.ModeSticky))
	if unlock, err := LockFolder(folder); err == nil {
		unlock()
		t.Error("a shared folder was accepted")
	}
}
