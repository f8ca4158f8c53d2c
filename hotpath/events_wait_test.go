package hotpath_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
)

// S51: who waits for events gets the next one, of the type that was asked for, within a
// second; one whose time or whose node ends gets an empty page.
func TestAwaitEvents(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 1)
	node, everything := f.nodes[0], hotpath.AccessOf(&audit.Key{})
	f.post(0, "first", fmt.Sprintf(askRules, 1000))
	page, err := node.Events(t.Context(), everything, audit.EventQuery{Limit: 100})
	if err != nil || len(page.Events) == 0 {
		t.Fatalf("%+v, %v", page, err)
	}
	after := audit.EventQuery{After: page.Next, Limit: 10}
	began := time.Now()
	empty, waited, err := node.AwaitEvents(t.Context(), everything, after, 300*time.Millisecond, nil)
	if err != nil || !waited || len(empty.Events) > 0 || time.Since(began) < 300*time.Millisecond {
		t.Errorf("nothing happened: %+v, %t, %v after %s", empty, waited, err, time.Since(began))
	}
	stop := make(chan struct{})
	close(stop)
	if empty, _, err := node.AwaitEvents(t.Context(), everything, after, time.Hour, stop); err != nil || len(empty.Events) > 0 {
		t.Errorf("a node that stops: %+v, %v", empty, err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			page, waited, err := node.AwaitEvents(t.Context(), everything, after, time.Hour, nil)
			if err != nil || !waited || len(page.Events) != 1 || page.Events[0].Type != audit.EventPolicyCreated {
				t.Errorf("%+v, %t, %v", page, waited, err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	f.post(0, "second", fmt.Sprintf(askRules, 1000))
	wg.Wait()
}
