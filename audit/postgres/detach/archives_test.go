package detach

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestVerifiedWhileADayLeaves: a verification from before a day left does not
// say that somebody removed its checks, but that it cannot go on.
func TestVerifiedWhileADayLeaves(t *testing.T) {
	o := newOldDays(t)
	before := o.snapshot(t)
	defer before.Close()
	if _, _, err := o.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	s, err := verify.Verify(t.Context(), verify.Options{Evidence: before, Workers: 2, Found: func(f verify.Finding) { t.Error(f) }})
	if err == nil || !strings.Contains(err.Error(), "was taken out of checks meanwhile") || len(s.Findings) > 0 {
		t.Errorf("%v, %+v", err, s.Findings)
	}
	o.mustBeClean(t)
}

// failing is evidence of rows that cannot be read; it reports them while the second day is being
// weighed.
type failing struct {
	verify.Evidence
	second  verify.Day
	weighed chan struct{}
}

var errUnreadable = errors.New("unreadable")

func (f failing) Rows(context.Context, verify.Range, func([]byte) error) error {
	<-f.weighed
	return errUnreadable
}

func (f failing) Weigh(ctx context.Context, r verify.Range) (verify.Weight, error) {
	if verify.DayOf(r.Low) != f.second {
		return f.Evidence.Weigh(ctx, r)
	}
	close(f.weighed)
	<-ctx.Done()
	return verify.Weight{}, ctx.Err()
}

// TestWhyVerifyingFailed: told is what went wrong, not what ended for that.
func TestWhyVerifyingFailed(t *testing.T) {
	o := newOldDays(t)
	s := o.snapshot(t)
	defer s.Close()
	_, err := verify.Verify(t.Context(), verify.Options{
		Evidence: failing{s, verify.Day(o.first.Unix()/86400 + 1), make(chan struct{})},
		From:     o.first, To: o.before().Add(-time.Millisecond), Workers: 1, Found: func(f verify.Finding) { t.Error(f) },
	})
	if !errors.Is(err, errUnreadable) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTamperedBehindTheRange: a verification up to some hour still tells that
// the file is not whole.
func TestTamperedBehindTheRange(t *testing.T) {
	o := newOldDays(t)
	if _, _, err := o.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	to := o.first.Add(3 * time.Hour)
	if s, found := o.verifiedTo(t, o.dir, to); !s.Clean() || s.Checks != 3 {
		t.Errorf("%d checks of the first hours: %q", s.Checks, found)
	}
	a := must.Get(archive.Open(o.dir, archive.ChecksOf(o.first)))(t)
	rewrite(t, a.Path(), func(f []byte) []byte { return append(f, "more"...) })
	if s, _ := o.verifiedTo(t, o.dir, to); s.Findings[verify.Altered] != 1 {
		t.Errorf("%+v", s.Findings)
	}
}

func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, change(content), 0o600))
}
