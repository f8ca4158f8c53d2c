package verify_test

import (
	"sync"
	"testing"
	"time"

	"spendgate/audit/verify"
	"spendgate/hotpath/spend"
)

// TestWhileNodesWrite finds nothing while commits go on in many lanes, policies
// come and checkpoints are signed: a reading is of one moment, and the file is
// read as it was before.
func TestWhileNodesWrite(t *testing.T) {
	tr := newTrail(t)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	again := func(what func()) {
		writing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					what()
				}
			}
		})
	}
	epoch, err := tr.store.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		lane := spend.NewID(time.Now())
		again(func() {
			for _, c := range checksOfAllSorts(spend.Fence{Node: lane, Epoch: epoch}) {
				if err := tr.writer.Append(c).Settle(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	again(func() {
		if err := tr.checkpoints.Write(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Millisecond) // or the file grows faster than it is read
	})
	var verified int64
	for range 8 {
		found, s, err := tr.verify(func(o *verify.Options) { o.SliceSize = 50; tr.held(o) })
		if err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		if s.Checks < verified {
			t.Errorf("%d checks, %d before", s.Checks, verified)
		}
		verified = s.Checks
	}
	close(stop)
	writing.Wait()
	if verified <= 2*perLane*perRecord {
		t.Errorf("nothing was written meanwhile: %d checks", verified)
	}
}
