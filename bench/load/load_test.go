package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Goal: a percentile is never below the truth and at most 1.6 % above it.
// Method: compare with sorted lists of random durations over many magnitudes.
func TestPercentilesAgainstSortedList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 99, 100, 1000, 20_000} {
		var h Histogram
		var all []time.Duration
		for range n {
			d := time.Duration(random.ExpFloat64() * float64(time.Millisecond) * float64(uint64(1)<<random.IntN(12)))
			h.Add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		for _, p := range []float64{50, 90, 99, 99.9, 100} {
			rank := max(int(float64(n)*p/100+0.999999), 1)
			exact, got := all[rank-1], h.Percentile(p)
			if got < exact || float64(got) > float64(exact)*1.016+1 {
				t.Errorf("p%v of %d is %v, want %v or up to 1.6 %% above", p, n, got, exact)
			}
		}
		if h.Max() != all[n-1] || h.Count() != uint64(n) {
			t.Errorf("max %v and count %d, want %v and %d", h.Max(), h.Count(), all[n-1], n)
		}
	}
}

func TestHistogramClassesHoldTheirEnds(t *testing.T) {
	for class := range classes - 1 {
		end := upperEnd(class)
		if classOf(end) != class || classOf(end+1) != class+1 {
			t.Fatalf("class %d ends at %d, but %d is in %d and the next in %d",
				class, end, end, classOf(end), classOf(end+1))
		}
	}
	var h Histogram
	h.Add(-time.Second) // a clock that jumped
	h.Add(time.Hour)
	if h.Max() != time.Hour || h.Percentile(100) != upperEnd(classes-1) {
		t.Errorf("extremes give %v and %v", h.Max(), h.Percentile(100))
	}
}

func TestMergeAddsUp(t *testing.T) {
	var a, b, both Histogram
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		both.Add(d)
		if i%3 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	a.Merge(&b)
	if a != both {
		t.Error("merged halves differ from the whole")
	}
}

// The shares are those of the performance targets.
func TestWorkloadMix(t *testing.T) {
	const n = 100_000
	w := DefaultWorkload(7)
	effects, keyed := make(map[Effect]int), 0
	rules, keys, agents := make(map[string]int), make(map[int]bool), make(map[int]bool)
	var a Action
	for serial := range uint64(n) {
		w.Action(serial, &a)
		effects[a.Want.Effect]++
		rules[a.Want.RuleID]++
		keys[a.Key], agents[a.Agent] = true, true
		if a.Keyed {
			keyed++
		}
	}
	near := func(what string, got, wantPercent int) {
		t.Helper()
		if got < n/100*wantPercent-n/100 || got > n/100*wantPercent+n/100 {
			t.Errorf("%s: %d of %d, want %d %%", what, got, n, wantPercent)
		}
	}
	near("allowed", effects[Allow], 60)
	near("blocked", effects[Block], 25)
	near("escalated", effects[Escalate], 15)
	near("keyed", keyed, 30)
	if len(keys) != 200 || len(agents) != 2000 || len(rules) != offences+2 {
		t.Errorf("%d keys, %d agents, %d outcomes", len(keys), len(agents), len(rules))
	}
}

func TestWorkloadIsAFunctionOfSeedAndSerial(t *testing.T) {
	var a, b Action
	DefaultWorkload(3).Action(41, &a)
	DefaultWorkload(3).Action(41, &b)
	if a != b {
		t.Errorf("one serial gave %v and %v", a, b)
	}
	differ := 0
	for serial := range uint64(100) {
		DefaultWorkload(4).Action(serial, &a)
		DefaultWorkload(5).Action(serial, &b)
		b.Seed = a.Seed
		if a != b {
			differ++
		}
	}
	if differ < 90 {
		t.Errorf("only %d of 100 actions differ between seeds", differ)
	}
}

// Goal: no action is a duplicate of another (S17).
func TestNoAccidentalDuplicates(t *testing.T) {
	w := Workload{Seed: 9, Keys: 2, Agents: 5, Policies: 2} // few agents repeat soonest
	seen := make(map[string]uint64)
	var a Action
	for serial := range uint64(200_000) {
		w.Action(serial, &a)
		counterparty := a.Vendor
		if counterparty == "" {
			counterparty = fmt.Sprint("customer-", a.Serial)
		}
		fingerprint := fmt.Sprint(a.Agent, a.Type, a.Cents, counterparty)
		if first, ok := seen[fingerprint]; ok {
			t.Fatalf("serials %d and %d are the same action: %+v", first, serial, a)
		}
		seen[fingerprint] = serial
	}
}

func TestParseResponse(t *testing.T) {
	f := func(text string, want response, wantOK bool) {
		t.Helper()
		if got, ok := parseResponse([]byte(text)); got != want || ok != wantOK {
			t.Errorf("%q gives %+v, %v, want %+v, %v", text, got, ok, want, wantOK)
		}
	}
	const head = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\n"
	f("", response{}, true)
	f("HTTP/1.1 200 OK\r\nContent-Le", response{}, true)
	f(head+"1234", response{status: 200, bodyFrom: len(head)}, true)
	f(head+"12345", response{200, len(head), len(head) + 5}, true)
	const chunked = "HTTP/1.1 422 X\r\nTransfer-Encoding: chunked\r\n\r\n"
	f(chunked+"3\r\nabc\r\n", response{status: 422, bodyFrom: len(chunked)}, true)
	f(chunked+"3\r\nabc\r\n0\r\n\r\n", response{422, len(chunked), len(chunked) + 13}, true)
	f("SSH-2.0 hello\r\n\r\n", response{}, false)
	f("HTTP/1.1 abc\r\n\r\n", response{}, false)
}

func TestSpread(t *testing.T) {
	if got, want := SpreadOf([]float64{3, 1, 10, 2}), (Spread{2.5, 1, 10}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	of, to := []Result{{PerSecond: 10}, {PerSecond: 30}}, []Result{{PerSecond: 5}, {PerSecond: 10}}
	if got, want := ratioOver(of, to, Throughput), (Spread{2.5, 2, 3}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The processor time of an answer, times how many there are in a second.
func TestCoresBusy(t *testing.T) {
	r := Result{Right: 20_000, Seconds: 2, CPU: map[string]float64{"node": 60, "postgres": 50, Generator: 15}}
	if busy := r.Busy(); busy != 1.25 {
		t.Errorf("%v cores, want 1.25", busy)
	}
}
