package hotpath

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// defaultNoteUsesEvery is how late the store may learn about uses of keys.
const defaultNoteUsesEvery = time.Minute

// lastUse is when a check or a policy last came to this node with a key, in Unix milliseconds; 0 is
// never. Reads and simulations do not count: they write nothing (G10). A key keeps it through all
// changes of its record.
type lastUse struct{ ms atomic.Int64 }

// note costs a check one load, and one store if it is the first of its millisecond. Of two concurrent
// uses the earlier may win, which is as good. Callers without a key have a nil use.
func (u *lastUse) note(now time.Time) {
	if u == nil {
		return
	}
	if ms := now.UnixMilli(); ms > u.ms.Load() {
		u.ms.Store(ms)
	}
}

// uses writes to the store, apart from the checks, when keys were last used.
type uses struct {
	store audit.Keys
	keys  func() map[spend.Hash]*key // of the present configuration
	log   *slog.Logger
	noted map[spend.ID]int64 // what was written to the store; used by one goroutine

	stop context.CancelFunc
	done sync.WaitGroup
}

func newUses(store audit.Keys, keys func() map[spend.Hash]*key, every time.Duration, log *slog.Logger) *uses {
	ctx, stop := context.WithCancel(context.Background())
	u := &uses{store: store, keys: keys, log: log, noted: make(map[spend.ID]int64), stop: stop}
	u.done.Go(func() { u.run(ctx, every) })
	return u
}

// close writes the uses that are not written yet.
func (u *uses) close() {
	u.stop()
	u.done.Wait()
}

func (u *uses) run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if err := u.flush(); err != nil {
			u.log.Warn("cannot note when keys were last used", "error", err)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// flush writes to the store the keys that were used since the last flush. After an error it tries
// again the next time.
func (u *uses) flush() error {
	var fresh []audit.KeyUse
	for _, k := range u.keys() {
		if ms := k.used.ms.Load(); ms > u.noted[k.ID] {
			fresh = append(fresh, audit.KeyUse{ID: k.ID, At: time.UnixMilli(ms)})
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	if err := u.store.NoteKeyUses(ctx, fresh); err != nil {
		return fmt.Errorf("%d keys: %w", len(fresh), err)
	}
	for _, f := range fresh {
		u.noted[f.ID] = f.At.UnixMilli()
	}
	return nil
}
