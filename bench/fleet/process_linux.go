package fleet

import "syscall"

// processAttributes make a child that dies with its parent: with the thread
// that begins it.
func processAttributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
