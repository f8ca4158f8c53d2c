//go:build unix && !linux

package fleet

import "syscall"

func processAttributes(as *syscall.Credential, detached bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: !detached, Setsid: detached}
}
