package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/chain"
	"spendgate/audit/pause"
	"spendgate/audit/spend"
)

// Options configure a Writer.
type Options struct {
	Heads func(context.Context) (chain.Heads, error) // of all chains there are
	// HeadsAt returns, for heads that the chains had, the heads that they have now at the same
	// numbers. Folded heads count as unchanged.
	HeadsAt func(context.Context, chain.Heads) (chain.Heads, error)
	Key     Key
	File    string // appended to, and synced
	Now     func() time.Time
	Logger  *slog.Logger
	// Registerer may be nil, for no metrics.
	Registerer prometheus.Registerer
}

// Writer appends checkpoints to a file. Any number of processes may write to
// one file: they take turns.
type Writer struct {
	o       Options
	metrics writerMetrics

	mu     sync.Mutex
	file   follower
	before *state // of another file, while this one has no line; nil for none
	begun  bool   // this process has written a full line, and later lines need not be full
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

// Write appends one checkpoint of the chains as they are now. It fails with
// ErrContradiction, and signs nothing, when they contradict an earlier one.
func (w *Writer) Write(ctx context.Context) error { return w.locked(ctx, "") }

// Acknowledge is Write also over a contradiction. The line says so, and why.
func (w *Writer) Acknowledge(ctx context.Context, reason string) error { return w.locked(ctx, reason) }

// ErrContradiction says that chains end earlier, or otherwise, than the last
// checkpoint has them.
var ErrContradiction = errors.New("the audit trail contradicts the last checkpoint: batches are gone. Verify it with the checkpoints; " +
	"nothing more is signed until `spendgate audit checkpoint --acknowledge REASON`")

func (w *Writer) locked(ctx context.Context, reason string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := w.write(ctx, reason)
	if err != nil {
		w.metrics.failures.Inc()
		return err
	}
	w.metrics.last.Store(w.o.Now().Unix())
	return nil
}

// write reads the heads when it is this process's turn, so that the lines of a
// file are in the order of their readings.
func (w *Writer) write(ctx context.Context, reason string) (failed error) {
	f, err := openLocked(ctx, w.o.File)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, f.Close()) }() // unlocks
	known, err := w.known(f)
	if err != nil {
		return fmt.Errorf("cannot read the file of checkpoints: %w", err)
	}
	heads, lost, err := w.heads(ctx, known)
	if err != nil {
		return err
	}
	w.metrics.truncated.Set(float64(len(lost.chains)))
	if lost.changes {
		w.metrics.truncated.Inc()
	}
	if lost.any() {
		w.complain(lost)
		if reason == "" {
			return ErrContradiction
		}
	}
	line := w.line(heads, !w.begun || lost.any() || reason != "")
	if reason != "" {
		line.Acknowledged = &Acknowledged{Reason: reason, Chains: append([]Lost{}, lost.chains...), Changes: lost.changes}
		w.metrics.truncated.Set(0)
	}
	return w.add(f, line)
}

// known is what the chains are held to: the last line of the file or, when the
// process begins, of a file beside it that is newer. When this file was put
// away and another begun, it is what this process knew.
func (w *Writer) known(f *os.File) (*state, error) {
	before, err := w.file.catchUp(f)
	if before != nil {
		w.before = before
	}
	if err != nil {
		return nil, err
	}
	key := w.o.Key.Public()
	known := &w.file.state
	switch {
	case known.last != nil:
		if err := known.check(key); err != nil {
			return nil, err
		}
	case w.before != nil:
		known = w.before
	}
	if w.begun {
		return known, nil
	}
	beside, err := newestBeside(w.o.File, key)
	if err == nil && beside != nil && beside.time.After(known.time) {
		known = beside
	}
	return known, err
}

// heads reads the chains, and how they contradict the known state. Another process may have
// acknowledged a contradiction in its own file.
func (w *Writer) heads(ctx context.Context, known *state) (chain.Heads, contradiction, error) {
	heads, lost, err := w.compare(ctx, known)
	if err != nil || !lost.any() {
		return heads, lost, err
	}
	beside, err := newestBeside(w.o.File, w.o.Key.Public())
	if err != nil {
		return heads, lost, fmt.Errorf("cannot read the checkpoints beside the file: %w", err)
	}
	if beside == nil || !beside.acknowledged.After(known.time) {
		return heads, lost, nil
	}
	w.begun = false               // the next line says all
	return w.compare(ctx, beside) // with the present heads: the other file may have been ahead
}

// compare reads the chains and holds them to a state.
func (w *Writer) compare(ctx context.Context, known *state) (heads chain.Heads, lost contradiction, err error) {
	if heads, err = w.o.Heads(ctx); err != nil {
		return heads, lost, fmt.Errorf("cannot read the heads of the chains: %w", err)
	}
	then := known.longer(heads)
	if len(then.Chains) > 0 || then.ChangeSeq > 0 {
		if then, err = w.o.HeadsAt(ctx, then); err != nil {
			return heads, lost, fmt.Errorf("cannot read the heads that the chains had: %w", err)
		}
	}
	return heads, known.lost(heads, then), nil
}

func (w *Writer) complain(lost contradiction) {
	const told = 10
	for _, l := range lost.chains[:min(len(lost.chains), told)] {
		w.o.Logger.Error("batches of the audit trail are gone: verify it", "chain", spend.ID(l.Chain).Text(""), "had", l.Had, "has", l.Has,
			"chains", len(lost.chains))
	}
	if lost.changes {
		w.o.Logger.Error("changes of the configuration are gone from the audit trail: verify it")
	}
}

// fullEvery bounds how many lines a process has to read when it starts.
const fullEvery = 1000

// line returns the next line, with all heads if full is set or the file needs a full line, else with
// the changed heads.
func (w *Writer) line(heads chain.Heads, full bool) Line {
	line := Line{
		Version: lineVersion, Time: w.o.Now().UTC(), Full: full || w.file.last == nil || w.file.sinceFull >= fullEvery, Heads: []Head{},
		Changes: LastChange{heads.ChangeSeq, Hex(heads.ChangeHead)},
		Chains:  len(heads.Chains), Digest: Hex(Digest(heads.Chains)), Key: w.o.Key.Public().ID(),
	}
	for _, h := range heads.Chains {
		if line.Full || w.file.heads[h.Chain] != h {
			line.Heads = append(line.Heads, Head{ChainID(h.Chain), h.Seq, Hex(h.Head)})
		}
	}
	if w.file.last != nil {
		line.Previous = sha256.Sum256(w.file.last)
	}
	return line
}

// add signs the line and appends it.
func (w *Writer) add(f *os.File, line Line) error {
	signed, err := w.o.Key.sign(line)
	if err != nil {
		return err
	}
	text := append(slices.Clone(signed), '\n')
	if w.file.torn {
		w.o.Logger.Warn("the last checkpoint of the file was not written to its end; going on behind it")
		text = slices.Insert(text, 0, '\n')
	}
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("cannot append to the file of checkpoints: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("cannot sync the file of checkpoints: %w", err)
	}
	w.begun = true
	if err := w.file.apply(signed); err != nil {
		return err
	}
	w.file.offset, w.file.torn = w.file.offset+int64(len(text)), false
	sum := sha256.Sum256(signed)
	w.o.Logger.Info("checkpoint", "chains", line.Chains, "digest", hex.EncodeToString(line.Digest[:]),
		"changes", hex.EncodeToString(line.Changes.Head[:]), "line", hex.EncodeToString(sum[:]), "key", line.Key)
	return nil
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
		if pause.For(ctx, turnRetry) != nil {
			return nil, fmt.Errorf("cannot lock the file of checkpoints: %w", errors.Join(err, f.Close()))
		}
	}
}
