package fleet

import "syscall"

// processAttributes returns the attributes of a child in a process group of its
// own: the terminal's signals do not reach it. Unless it is detached it ends with
// the thread that started it.
func processAttributes(as *syscall.Credential, detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Credential: as, Setsid: true}
	}
	return &syscall.SysProcAttr{Credential: as, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
