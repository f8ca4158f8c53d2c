package load

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations. It has 64 classes for every power of two, so a percentile is at most
// 1.6 % above the truth, and the maximum is exact. The zero value is empty. It is not safe for
// concurrent use.
type Histogram struct {
	counts [classes]uint64
	total  uint64
	sum    time.Duration
	max    time.Duration
}

const (
	subBits = 6
	perBit  = 1 << subBits
	// The top class holds all that is longer than about 18 minutes.
	classes = (40 - subBits + 1) * perBit
)

// classOf returns the class of a duration; each one below perBit nanoseconds has
// its own.
func classOf(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < perBit {
		return int(n)
	}
	shift := bits.Len64(n) - subBits - 1
	return min((shift+1)*perBit+int(n>>shift)-perBit, classes-1)
}

// upperEnd returns the longest duration of a class.
func upperEnd(class int) time.Duration {
	if class < perBit {
		return time.Duration(class)
	}
	shift := class/perBit - 1
	return time.Duration((uint64(class%perBit+perBit)+1)<<shift - 1)
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[classOf(d)]++
	h.total++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds what another histogram counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count returns how many durations were added.
func (h *Histogram) Count() uint64 { return h.total }

// Max returns the longest duration.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the average; 0 without durations.
func (h *Histogram) Mean() time.Duration {
	if h.total == 0 {
		return 0
	}
	return h.sum / time.Duration(h.total)
}

// Percentile returns the duration that p percent of the added ones do not exceed, up to the width
// of its class; 0 without durations.
func (h *Histogram) Percentile(p float64) time.Duration {
	rank := uint64(math.Ceil(p / 100 * float64(h.total)))
	var below uint64
	for class, n := range h.counts {
		if below += n; below >= max(rank, 1) {
			return min(upperEnd(class), h.max)
		}
	}
	return h.max
}
