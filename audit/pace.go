package audit

import (
	"sync/atomic"
	"time"
)

// pace estimates when the commit under way will end, from those before it.
type pace struct {
	begun atomic.Int64 // Unix nanoseconds; 0 while no commit is under way
	usual atomic.Int64 // nanoseconds, a moving average
}

// paceWeight is how many commits the average looks back on.
const paceWeight = 8

func (p *pace) begin() { p.begun.Store(time.Now().UnixNano()) }

// end is called by the one goroutine that called begin.
func (p *pace) end() {
	took := time.Now().UnixNano() - p.begun.Swap(0)
	p.usual.Store(p.usual.Load() + (took-p.usual.Load())/paceWeight)
}

func (p *pace) left() time.Duration {
	begun := p.begun.Load()
	if begun == 0 {
		return 0
	}
	return time.Duration(max(0, begun+p.usual.Load()-time.Now().UnixNano()))
}
