package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
)

// traffic sends checks and judges the answers.
type traffic struct {
	fleet    *fleet.Fleet
	workload load.Workload
	keys     []string
	payers   []string
	broken   atomic.Bool // a fault is not over

	mu    sync.Mutex
	tally tally
	news  news
	past  []done // some keyed checks that were answered
}

// news is what happened since the last sample.
type news struct {
	took     load.Histogram // from when a request was due
	faults   []string
	answered []string // checks
}

// tally counts from the beginning.
type tally struct {
	Checks    uint64 `json:"checks"` // answered, replays apart
	Replays   uint64 `json:"replays"`
	Payments  uint64 `json:"payments"` // executed and reported
	Delivered uint64 `json:"delivered"`
	Excused   uint64 `json:"failed_in_faults"` // requests
	Failed    uint64 `json:"failed"`           // without a fault
	Failure   string `json:"failure,omitempty"`
	Wrong     uint64 `json:"wrong"`
	Mistake   string `json:"mistake,omitempty"`
}

// done is a check with an idempotency key, and its answer.
type done struct {
	key     string
	request []byte
	answer  []byte
}

const (
	pasts    = 8192        // at 300 checks a second replays are 1.6 hours old at most, which is more than Redis knows
	renewal  = 64          // of which one is kept in the place of an older one
	kinds    = 20          // of which one is a payment and one a replay
	patience = time.Minute // for which a request with a key or a nonce is repeated
)

// prepare makes keys and policies. Each check counts in a budget that nothing reaches.
func prepare(ctx context.Context, f *fleet.Fleet) (*traffic, error) {
	t := &traffic{fleet: f, workload: load.DefaultWorkload(1)}
	d := load.Deployment{URL: f.Nodes[0].API, AdminKey: f.AdminKey}
	var err error
	t.keys, err = d.Prepare(ctx, t.workload, map[string]any{"rule_id": "hourly", "rule_type": "budget", "parameters": map[string]any{
		"limit": 1_000_000_000, "currency": "USD", "per": []string{"agent_id"}, "window": "hour",
	}})
	if err == nil {
		t.payers, err = d.PayingKeys(ctx, t.workload)
	}
	return t, err
}

// run sends requests, each when it is due, until ctx ends, and waits for their answers.
func (t *traffic) run(ctx context.Context, rate float64) {
	var sending sync.WaitGroup
	defer sending.Wait()
	begun := time.Now()
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		sending.Go(func() {
			switch n % kinds {
			case 0:
				t.pay(n, due)
			case 1:
				t.replay(n, due)
			default:
				t.check(n, due)
			}
		})
	}
}

func (t *traffic) check(n int, due time.Time) {
	var a load.Action
	t.workload.Action(uint64(n), &a)
	d := done{key: t.keys[a.Key], request: load.AppendBody(nil, &a, false)}
	answer := t.ask(n, due, d.key, "/v1/checks", d.request, a.Keyed)
	if !t.judge(answer, &a, false) || !a.Keyed {
		return
	}
	d.answer = answer.Body
	t.mu.Lock()
	switch {
	case len(t.past) < pasts:
		t.past = append(t.past, d)
	case n%renewal == 0:
		t.past[n/renewal%pasts] = d
	}
	t.mu.Unlock()
}

// replay sends a check again that was answered: the answer must be the same.
func (t *traffic) replay(n int, due time.Time) {
	t.mu.Lock()
	if len(t.past) == 0 {
		t.mu.Unlock()
		return
	}
	d := t.past[rand.IntN(len(t.past))]
	t.mu.Unlock()
	answer := t.ask(n, due, d.key, "/v1/checks", d.request, true)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case answer.Status == 0:
	case answer.Replayed() && bytes.Equal(answer.Body, d.answer):
		t.tally.Replays++
	default:
		t.mistakeLocked("no replay", answer)
	}
}

// pay checks and redeems a payment in one request, and reports it.
func (t *traffic) pay(n int, due time.Time) {
	var a load.Action
	t.workload.Action(uint64(n), &a)
	key := t.payers[a.Key]
	answer := t.ask(n, due, key, "/v1/checks", load.AppendBody(nil, &a, true), true)
	if !t.judge(answer, &a, true) || a.Want.Effect != load.Allow {
		return
	}
	var said struct {
		CheckID string `json:"check_id"`
		Payment struct {
			RedemptionID string `json:"redemption_id"`
		} `json:"payment"`
	}
	err := json.Unmarshal(answer.Body, &said)
	report := fmt.Appendf(nil, `{"status":"executed","redemption_id":%q}`, said.Payment.RedemptionID)
	answer = t.ask(n, time.Now(), key, "/v1/checks/"+said.CheckID+"/outcome", report, true)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case answer.Status == 0:
	case err == nil && answer.Status < http.StatusMultipleChoices:
		t.tally.Payments++
	default:
		t.mistakeLocked("no outcome", answer)
	}
}

// ask sends a request to one node after the other until it is answered, if that is safe, else once. An answer without a status
// is none.
func (t *traffic) ask(n int, due time.Time, key, path string, body []byte, safe bool) fleet.Answer {
	for ; ; n++ {
		answer, err := t.fleet.Nodes[n%len(t.fleet.Nodes)].Client(key).Do(context.Background(), http.MethodPost, path, json.RawMessage(body))
		if err == nil && answer.Status < http.StatusInternalServerError && answer.Header.Get("Retry-After") == "" {
			t.mu.Lock()
			t.news.took.Add(time.Since(due))
			t.mu.Unlock()
			return answer
		}
		t.failed(fmt.Sprint(answer, err))
		if !safe || time.Since(due) > patience {
			return fleet.Answer{}
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// judge judges the answer to a check that is new, and reports whether it is right.
func (t *traffic) judge(answer fleet.Answer, a *load.Action, pays bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if answer.Status == 0 {
		return false
	}
	wrong := fmt.Sprint("status ", answer.Status)
	if answer.Status == http.StatusOK {
		wrong = (&load.Spendgate{Pays: pays}).Judge(a.Want, nil, answer.Body)
	}
	if wrong != "" {
		t.mistakeLocked(wrong, answer)
		return false
	}
	t.tally.Checks++
	t.news.answered = append(t.news.answered, load.CheckID(answer.Body))
	return true
}

func (t *traffic) failed(how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken.Load() {
		t.tally.Excused++
		return
	}
	t.tally.Failed++
	t.tally.Failure = time.Now().UTC().Format(time.TimeOnly) + " " + how
}

func (t *traffic) mistakeLocked(what string, answer fleet.Answer) {
	t.tally.Wrong++
	t.tally.Mistake = fmt.Sprintf("%s %s: %s", time.Now().UTC().Format(time.TimeOnly), what, answer)
}

func (t *traffic) happened(fault string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news.faults = append(t.news.faults, fault)
}

// receive takes what the webhook delivers.
func (t *traffic) receive(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what is broken off comes again
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.Delivered++
}

// take returns what happened since it was called before.
func (t *traffic) take() (tally, news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.news
	t.news = news{}
	return t.tally, taken
}

// missing notes that checks which were answered are not in the record.
func (t *traffic) missing(checks int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.Wrong += uint64(checks)
	t.tally.Mistake = fmt.Sprint(checks, " answered checks are not recorded")
}

// putBack returns checks that could not be looked up.
func (t *traffic) putBack(checks []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news.answered = append(t.news.answered, checks...)
}
