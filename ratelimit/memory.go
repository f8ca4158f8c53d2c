package ratelimit

import "time"

// Memory is what a node remembers of windows, to spare Redis commands: when
// they end, and which callers were refused. It is never asked whether a
// request is admitted. It belongs to one goroutine at a time.
type Memory struct {
	windows map[string]window
}

type window struct {
	expiresMS int64
	limit     int   // refused under this limit; 0 when not refused
	refused   Place // where
}

const (
	// maxWindows bounds the memory; past it windows are forgotten, which costs
	// commands, not correctness.
	maxWindows = 1 << 16
	// margin keeps away from a window's end, which this node's idea of Redis'
	// time could miss.
	margin = 2 * time.Second
)

func (m *Memory) put(key string, w window) {
	if m.windows == nil || len(m.windows) >= maxWindows {
		m.windows = make(map[string]window)
	}
	m.windows[key] = w
}

// NoteEnd remembers when a window ends.
func (m *Memory) NoteEnd(key string, expiresMS int64) {
	if m.windows[key].expiresMS != expiresMS {
		m.put(key, window{expiresMS: expiresMS})
	}
}

// End returns the end of the window that is open at now, in Unix milliseconds; ok is false if none
// is, or its end is near.
func (m *Memory) End(key string, now time.Time) (expiresMS int64, ok bool) {
	w := m.windows[key]
	return w.expiresMS, now.Add(margin).UnixMilli() < w.expiresMS
}

// NoteRefusal remembers that a request was refused under a limit.
func (m *Memory) NoteRefusal(key string, limit int, place Place) {
	m.put(key, window{expiresMS: place.ExpiresMS, limit: limit, refused: place})
}

// Refused returns the refusal that still holds for the key: its window has not
// ended at now, and the limit is the one it was refused under, since a changed
// key is judged anew.
func (m *Memory) Refused(key string, limit int, now time.Time) (Place, bool) {
	w := m.windows[key]
	if w.limit == 0 || w.limit != limit || w.refused.Ended(now) {
		return Place{}, false
	}
	return w.refused, true
}

// ForgetWindow drops one window: it is not what it was.
func (m *Memory) ForgetWindow(key string) { delete(m.windows, key) }

// Forget drops every window: the counters they were read from are gone.
func (m *Memory) Forget() { m.windows = nil }
