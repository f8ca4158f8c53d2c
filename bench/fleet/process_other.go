//go:build unix && !linux

package fleet

import "syscall"

func processAttributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}
