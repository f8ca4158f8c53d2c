package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// Options say what a Writer signs and where it writes.
type Options struct {
	Heads  func(context.Context) (chain.Heads, error) // of all chains there are
	Key    Key
	File   string // appended to, and synced
	Now    func() time.Time
	Logger *slog.Logger
	// Registerer may be nil for no metrics.
	Registerer prometheus.Registerer
}

// Writer appends checkpoints to a file. Any number of processes may write to
// one file: they take turns.
type Writer struct {
	o       Options
	metrics writerMetrics

	mu    sync.Mutex
	known map[spend.ID]chain.Head // of the last line of this Writer
}

// NewWriter makes a Writer; nothing is written yet.
func NewWriter(o Options) *Writer {
	w := &Writer{o: o}
	w.metrics.register(o.Registerer)
	return w
}

// timeout bounds a checkpoint, the turn of other processes included.
const timeout = 10 * time.Second

// Run writes a checkpoint at once and then at the interval, until the context
// ends.
func (w *Writer) Run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := w.Write(ctx); err != nil && ctx.Err() == nil {
			w.o.Logger.Error("cannot write a checkpoint", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Write appends one checkpoint of the chains as they are now.
func (w *Writer) Write(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := w.write(ctx)
	if err != nil {
		w.metrics.failures.Inc()
		return err
	}
	w.metrics.last.Store(w.o.Now().Unix())
	return nil
}

// write reads the heads when it is this process's turn, so that the lines of a
// file are in the order of their readings.
func (w *Writer) write(ctx context.Context) (failed error) {
	f, err := openLocked(ctx, w.o.File)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, f.Close()) }() // unlocks
	last, torn, err := lastLine(f)
	if err != nil {
		return fmt.Errorf("cannot read the file of checkpoints: %w", err)
	}
	heads, err := w.o.Heads(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the heads of the chains: %w", err)
	}
	line, known := w.line(heads, last == nil)
	if last != nil {
		line.Previous = sha256.Sum256(last)
	}
	text, err := w.o.Key.sign(line)
	if err != nil {
		return err
	}
	if torn {
		w.o.Logger.Warn("the last checkpoint of the file was not written to its end; going on behind it")
		text = append([]byte("\n"), text...)
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("cannot append to the file of checkpoints: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("cannot sync the file of checkpoints: %w", err)
	}
	w.known = known
	sum := sha256.Sum256(bytes.TrimPrefix(text, []byte("\n")))
	w.o.Logger.Info("checkpoint", "chains", line.Chains, "digest", hex.EncodeToString(line.Digest[:]),
		"policies", hex.EncodeToString(line.Policies.Head[:]), "line", hex.EncodeToString(sum[:]), "key", line.Key)
	return nil
}

// line is the next one; full when the file has none that it could add to.
func (w *Writer) line(heads chain.Heads, full bool) (Line, map[spend.ID]chain.Head) {
	known := make(map[spend.ID]chain.Head, len(heads.Chains))
	for _, h := range heads.Chains {
		known[h.Chain] = h
	}
	truncated := w.truncated(known)
	line := Line{
		Version: lineVersion, Time: w.o.Now().UTC(), Full: full || w.known == nil || truncated, Heads: []Head{},
		Policies: Policies{heads.PolicySeq, Hex(heads.PolicyHead)},
		Chains:   len(heads.Chains), Digest: Hex(Digest(heads.Chains)), Key: w.o.Key.Public().ID(),
	}
	for _, h := range heads.Chains {
		if line.Full || w.known[h.Chain] != h {
			line.Heads = append(line.Heads, Head{ChainID(h.Chain), h.Seq, Hex(h.Head)})
		}
	}
	return line, known
}

// truncated reports whether a chain ends earlier than it did at the last checkpoint,
// or otherwise. Chains only grow.
func (w *Writer) truncated(now map[spend.ID]chain.Head) (found bool) {
	for chainID, before := range w.known {
		h := now[chainID]
		if h.Seq < before.Seq || h.Seq == before.Seq && h.Head != before.Head {
			found = true
			w.metrics.truncated.Inc()
			w.o.Logger.Error("batches of the audit trail are gone: verify it", "chain", chainID.Text(""),
				"had", before.Seq, "has", h.Seq)
		}
	}
	return found
}

const turnRetry = 50 * time.Millisecond

// openLocked opens the file when no other process has it locked.
func openLocked(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot open the file of checkpoints: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot lock the file of checkpoints: %w", errors.Join(err, f.Close()))
		case <-time.After(turnRetry):
		}
	}
}

// lastLine returns the last whole line of the file, without its newline, nil when
// there is none. torn means that the file does not end with a newline. The
// file is read from its end, for it only grows.
func lastLine(f *os.File) (last []byte, torn bool, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	const least = 64 << 10
	for n := int64(least); ; n *= 4 {
		from := max(0, size-n)
		tail := make([]byte, size-from)
		if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		torn = len(tail) > 0 && tail[len(tail)-1] != '\n'
		lines := bytes.Split(tail, []byte("\n")) // what is behind the last newline may lack just that
		for i := len(lines) - 1; i >= 0 && (i > 0 || from == 0); i-- {
			if isWhole(lines[i]) {
				return lines[i], torn, nil
			}
		}
		if from == 0 {
			return nil, torn, nil
		}
	}
}

// isWhole reports whether a line was written to its end.
func isWhole(text []byte) bool {
	return bytes.Contains(text, []byte(signatureField)) && json.Valid(text)
}
