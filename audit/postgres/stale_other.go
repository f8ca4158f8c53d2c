//go:build !unix

package postgres

// stale cannot be told here; the next commit finds out.
func (s *session) stale() bool { return false }
