package verify_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestFoldedByAnotherKey: batches folded before the key was replaced are proved by the earlier key.
// A key that is not given proves nothing.
func TestFoldedByAnotherKey(t *testing.T) {
	t.Parallel()
	f := newFolded(t)
	later := must.Get(checkpoint.NewKey(bytes.Repeat([]byte{8}, 32)))(t)
	var folds []string
	snapshot, err := snapshot.Open(t.Context(), f.url, 1)
	must.Do(t, err)
	defer snapshot.Close()
	must.Do(t, snapshot.Folds(t.Context(), func(fold verify.Fold) error {
		if folds = append(folds, fmt.Sprintf("altered fold of chain %s up to batch %d", fold.Chain.Text(""), fold.To)); len(folds) == 2 {
			f.exec(`UPDATE folded_chains SET signature = '\x%x' WHERE to_seq = %d`, later.SignFold(&fold.Fold), fold.To)
		}
		return nil
	}))
	if len(folds) != 2 {
		t.Fatalf("%d folds", len(folds))
	}
	for _, c := range []struct {
		keys []checkpoint.PublicKey
		want []string
	}{
		{[]checkpoint.PublicKey{later.Public(), f.key}, nil},
		{[]checkpoint.PublicKey{later.Public()}, folds[:1]},
		{[]checkpoint.PublicKey{f.key}, folds[1:]},
	} {
		own, _, err := f.verify(func(o *verify.Options) { o.Archives, o.FoldKeys = f.dir, c.keys })
		must.Do(t, err)
		args := []string{"--archive", f.dir}
		for _, key := range c.keys {
			args = append(args, "--public-key", base64.StdEncoding.EncodeToString(key))
		}
		if theirs := f.stranger(false, args...); !slices.Equal(own, c.want) || !slices.Equal(theirs, c.want) {
			t.Errorf("%d keys: found %q, the stranger %q, want %q", len(c.keys), own, theirs, c.want)
		}
	}
}
