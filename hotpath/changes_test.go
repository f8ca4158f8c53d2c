package hotpath_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestChangesHaveTheirAuthor makes a change of each kind: the record and the log
// have who made it, and neither has the raw key or its hash.
func TestChangesHaveTheirAuthor(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ctx, log := context.Background(), new(lockedBuffer)
		f.log = log
		n := f.start(f.server, f.inProcess)
		before := must.Get(f.store.Changes(ctx, audit.ChangeQuery{Limit: 1000}))(t)
		admin := audit.Actor{Credential: "0123abcd", RequestID: "req_1", Address: "192.0.2.1"}
		raw, k, err := n.CreateKey(ctx, admin, hotpath.NewKey{Name: "till", RateLimitRPM: 10})
		must.Do(t, err)
		if _, _, err := n.UpdateKey(ctx, admin, k.ID, audit.KeyChange{Active: new(false)}); err != nil {
			t.Fatal(err)
		}
		access, _, err := n.Admit(ctx, f.key, spend.PoliciesWrite, false)
		must.Do(t, err)
		caller := audit.Actor{RequestID: "req_2", Address: "192.0.2.2"}
		v := hotpath.NewVersion{Policy: &audit.Policy{PolicyID: "p", Name: "p", Rules: plainRules}}
		must.Do(t, n.CreatePolicy(ctx, access, caller, v))
		caller.KeyID = f.keyID.Text(spend.PrefixKey)
		caller.Principal = caller.KeyID // none was given
		changes := must.Get(f.store.Changes(ctx, audit.ChangeQuery{After: int64(len(before)), Limit: 1000}))(t)
		var by []audit.Actor
		for _, c := range changes {
			by = append(by, c.By)
			if text := string(c.Row()); strings.Contains(text, raw) || strings.Contains(text, string(k.Hash[:])) {
				t.Errorf("change %d has the key's secret", c.Seq)
			}
		}
		if !slices.Equal(by, []audit.Actor{admin, admin, caller}) {
			t.Errorf("recorded by %+v", by)
		}
		lines := log.String()
		for _, want := range []string{
			`msg="key created" key_id=` + k.ID.Text(spend.PrefixKey) + " active=true actor=admin by=0123abcd request_id=req_1 address=192.0.2.1",
			`msg="key changed" key_id=` + k.ID.Text(spend.PrefixKey) + " active=false actor=admin by=0123abcd request_id=req_1 address=192.0.2.1",
			`msg="policy created" policy_id=p version=2 actor=key by=` + caller.KeyID + " request_id=req_2 address=192.0.2.2",
		} {
			if strings.Count(lines, "level=INFO "+want) != 1 {
				t.Errorf("not logged once: %s\n%s", want, lines)
			}
		}
		if strings.Contains(lines, raw) || strings.Contains(lines, hex.EncodeToString(k.Hash[:])) {
			t.Errorf("the log has the key:\n%s", lines)
		}
	})
}
