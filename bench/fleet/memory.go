package fleet

import (
	"os"
	"testing"
)

// MemoryDir returns a folder of the test, in memory where the machine has a folder for that: a store's syncs of a disk cost more
// than what is tested, and those of other programs may hold them up for seconds.
func MemoryDir(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "spendgate-test-") //nolint:usetesting // another folder
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
