package trace

import (
	"slices"
	"testing"
	"time"
)

func TestSpans(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	r := new(Record)
	r.End(at(0)) // nothing began
	r.Begin(Decode, at(1))
	r.End(at(2))
	r.End(at(3)) // is over already
	r.Begin(Evaluate, at(4))
	r.Begin(Commit, at(5))
	r.End(at(9))
	want := []Span{{Decode, at(1), at(2)}, {Evaluate, at(4), at(5)}, {Commit, at(5), at(9)}}
	if got := r.Spans(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range 2 * maxSpans {
		r.Begin(Guard, at(10))
	}
	r.End(at(11))
	if got := r.Spans(); len(got) != maxSpans {
		t.Errorf("%d spans, want %d", len(got), maxSpans)
	}
}

// stages records what a check does.
func stages(r *Record, now time.Time) {
	r.Begin(Decode, now)
	r.EndNow()
	r.Begin(Guard, now)
	r.End(now)
	r.Begin(Evaluate, now)
	r.Begin(Commit, now)
	r.End(now)
}

func TestOffIsFree(t *testing.T) {
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { stages(nil, now) }); n != 0 {
		t.Errorf("without a trace a check allocates %v times for it", n)
	}
}

func BenchmarkStagesOff(b *testing.B) {
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		stages(nil, now)
	}
}
