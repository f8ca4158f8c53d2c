package gateway

func (s *session) callMapped(m message, l *link, name string, params object) {
}
