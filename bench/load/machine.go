package load

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
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
	return Machine{
		Measured: time.Now().UTC().Format(time.RFC3339), Version: version,
		CPU: cpuModel(), Cores: runtime.NumCPU(),
		Kernel: firstWord("/proc/sys/kernel/osrelease"), Go: runtime.Version(), LoadBefore: loadAverage(),
	}
}

func cpuModel() string {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func loadAverage() float64 {
	load, err := strconv.ParseFloat(firstWord("/proc/loadavg"), 64)
	if err != nil {
		return -1
	}
	return load
}

func firstWord(path string) string {
	content, err := os.ReadFile(path)
	words := bytes.Fields(content)
	if err != nil || len(words) == 0 {
		return "unknown"
	}
	return string(words[0])
}
