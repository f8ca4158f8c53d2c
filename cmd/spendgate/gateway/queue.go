package gateway

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// maxQueued bounds the bytes that wait for a server that does not read.
const maxQueued = 32 << 20

// queue is a writer that does not wait for its reader: texts are written in order, in the
// background. Once a write has failed, or too many bytes are waiting, Write fails.
type queue struct {
	out io.WriteCloser

	mu      sync.Mutex
	more    chan struct{} // has an element while texts may wait
	waiting [][]byte
	size    int
	err     error
}

func newQueue(out io.WriteCloser) *queue {
	q := &queue{out: out, more: make(chan struct{}, 1)}
	go q.run()
	return q
}

var (
	errFull  = errors.New("it does not read what it is sent")
	errEnded = errors.New("it has ended")
)

// Write queues a copy.
func (q *queue) Write(text []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil && q.size > 0 && q.size+len(text) > maxQueued {
		q.err = errFull
	}
	if q.err != nil {
		return 0, q.err
	}
	q.waiting, q.size = append(q.waiting, append([]byte(nil), text...)), q.size+len(text)
	q.wake()
	return len(text), nil
}

// remove takes back a text if nothing of it was written yet, and reports whether it did.
func (q *queue) remove(text []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.waiting, func(w []byte) bool { return bytes.Equal(w, text) })
	if i < 0 {
		return false
	}
	q.waiting, q.size = slices.Delete(q.waiting, i, i+1), q.size-len(text)
	return true
}

// wake makes run look for texts, if it is not already about to.
func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// Close ends the writer; a text that is being written breaks off.
func (q *queue) Close() error {
	q.mu.Lock()
	q.err = errEnded
	q.wake()
	q.mu.Unlock()
	return q.out.Close()
}

func (q *queue) run() {
	for range q.more {
		for {
			q.mu.Lock()
			if q.err != nil {
				q.mu.Unlock()
				return
			}
			if len(q.waiting) == 0 {
				q.mu.Unlock()
				break
			}
			text := q.waiting[0]
			q.waiting = q.waiting[1:]
			q.mu.Unlock()
			_, err := q.out.Write(text)
			q.mu.Lock()
			q.size -= len(text)
			if q.err == nil {
				q.err = err
			}
			q.mu.Unlock()
		}
	}
}
