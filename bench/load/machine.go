package load

import (
	"cmp"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Machine says where and when results were measured.
type Machine struct {
	Measured   string  `json:"measured"`
	Version    string  `json:"version,omitempty"` // of what was measured
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	Kernel     string  `json:"kernel"`
	Go         string  `json:"go"`
	LoadBefore float64 `json:"load_average_before"` // well above 0: others were at work
}

// ThisMachine describes the machine that this process runs on.
func ThisMachine(version string) Machine {
	m := Machine{
		Measured: time.Now().UTC().Format(time.RFC3339), Version: version,
		CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Kernel: "unknown", Go: runtime.Version(), LoadBefore: -1,
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(kernel))
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPU = cmp.Or(cpus[0].ModelName, m.CPU)
	}
	if load, err := proc.LoadAvg(); err == nil {
		m.LoadBefore = load.Load1
	}
	return m
}
