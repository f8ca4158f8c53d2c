package gateway

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// posting is the body of a request to a remote. The transport begins to read it when it has
// a connection. Until then the request can be taken back: no server carries out a call
// without its body.
type posting struct {
	ctx    context.Context //nolint:containedctx // of the exchange
	cancel context.CancelFunc
	text   *bytes.Reader // not embedded: the transport would use its WriteTo instead of Read

	mu        sync.Mutex
	begun     bool
	takenBack bool
}

// posting makes the body of a request. unsend finds it until forget is called.
func (r *remote) posting(m message) (*posting, error) {
	text, err := encodeMessage(m)
	if err != nil {
		return nil, fmt.Errorf("cannot write a message: %w", err)
	}
	p := &posting{text: bytes.NewReader(text)}
	p.ctx, p.cancel = context.WithCancel(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.postings[string(m.ID)] = p
	return p, nil
}

func (r *remote) forget(m message, p *posting) {
	p.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.postings, string(m.ID))
}

// unsend takes back a request if nothing of it was sent, and reports whether it did.
func (r *remote) unsend(m message) bool {
	r.mu.Lock()
	p := r.postings[string(m.ID)]
	r.mu.Unlock()
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun {
		return false
	}
	p.takenBack = true
	p.cancel()
	return true
}

// Read is called by the transport.
func (p *posting) Read(to []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.takenBack {
		return 0, errNotSent
	}
	p.begun = true
	return p.text.Read(to) //nolint:wrapcheck // io.EOF is meant
}
