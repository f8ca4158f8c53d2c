package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// refuses demands that nothing is signed, and that so many chains are said to be lost.
func refuses(t *testing.T, w *Writer, lost float64) {
	t.Helper()
	before, err := os.ReadFile(w.o.File)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := w.Write(t.Context()); !errors.Is(err, ErrContradiction) {
		t.Errorf("got %v", err)
	}
	if got := testutil.ToFloat64(w.metrics.truncated); got != lost {
		t.Errorf("%v chains are lost, want %v", got, lost)
	}
	if after, err := os.ReadFile(w.o.File); err != nil || string(after) != string(before) {
		t.Errorf("signed %s", after[len(before):])
	}
}

// lose returns heads of which a chain and the chain of changes were truncated after they were
// signed in the file.
func lose(t *testing.T, file string) *chains {
	t.Helper()
	c := new(chains)
	c.grow(1, 5)
	c.grow(2, 7)
	c.heads.ChangeSeq, c.heads.ChangeHead = 3, spend.Hash{9}
	write(t, c.writer(t, file, nil))
	c.grow(1, 4)
	c.heads.ChangeSeq, c.heads.ChangeHead = 2, spend.Hash{8}
	return c
}

// TestTruncatedChains: nothing is signed over chains that are shorter than they were,
// by the process that saw them longer or by one that starts later.
func TestTruncatedChains(t *testing.T) {
	reg := prometheus.NewRegistry()
	file := filepath.Join(t.TempDir(), "file")
	var c chains
	c.grow(1, 5)
	c.grow(2, 7)
	w := c.writer(t, file, reg)
	write(t, w)
	c.grow(1, 4)
	refuses(t, w, 1)
	c.heads.Chains = c.heads.Chains[:1]
	refuses(t, w, 2)
	refuses(t, c.writer(t, file, nil), 2)
	c.grow(1, 5)
	c.grow(2, 7)
	write(t, w) // it was another database, say
	if got := testutil.ToFloat64(w.metrics.truncated); got != 0 {
		t.Errorf("%v chains are lost", got)
	}
	c.err = errors.New("made to fail")
	if err := w.Write(t.Context()); !errors.Is(err, c.err) {
		t.Errorf("got %v", err)
	}
	if got := testutil.ToFloat64(w.metrics.failures); got != 3 {
		t.Errorf("%v failures", got)
	}
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 3 || w.metrics.last.Load() == 0 {
		t.Errorf("%d metrics, %v", n, err)
	}
}

// TestAcknowledge signs over a contradiction, says so in the line, and lets every
// process go on.
func TestAcknowledge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	c := lose(t, file)
	w := c.writer(t, file, nil)
	refuses(t, w, 2)
	must.Do(t, c.writer(t, file, nil).Acknowledge(t.Context(), "restored"))
	write(t, w)
	all, _ := lines(t, file)
	a := all[1].Acknowledged
	if len(all) != 3 || a == nil || !all[1].Full || a.Reason != "restored" || !a.Changes || len(a.Chains) != 1 ||
		a.Chains[0] != (Lost{ChainID{1}, 5, 4}) {
		t.Errorf("lines %+v", all)
	}
	if all[2].Acknowledged != nil {
		t.Error("it was acknowledged once")
	}
}

// TestGrownPastALoss: a loss is reported even if the chains are longer than before, as after a
// restore, whose record continues the chain of changes (G8).
func TestGrownPastALoss(t *testing.T) {
	for name, then := range map[string]func(chain.Heads) chain.Heads{
		"others": func(then chain.Heads) chain.Heads {
			then.Chains = []chain.Head{{Chain: spend.ID{1}, Seq: 5, Head: spend.Hash{1}}}
			then.ChangeHead = spend.Hash{8}
			return then
		},
		"none": func(chain.Heads) chain.Heads { return chain.Heads{} },
	} {
		file := filepath.Join(t.TempDir(), "file")
		var c chains
		c.grow(1, 5)
		c.grow(2, 7)
		c.heads.ChangeSeq, c.heads.ChangeHead = 3, spend.Hash{9}
		w := c.writer(t, file, nil)
		write(t, w)
		c.grow(1, 6)
		c.grow(2, 8)
		c.grow(3, 1)
		c.heads.ChangeSeq, c.heads.ChangeHead = 5, spend.Hash{7}
		c.then = func(asked chain.Heads) chain.Heads {
			if len(asked.Chains) != 2 || asked.ChangeSeq != 3 {
				t.Errorf("%s: asked about %+v", name, asked)
			}
			now := then(asked)
			now.Chains = append(now.Chains, chain.Head{Chain: spend.ID{2}, Seq: 7, Head: spend.Hash{2, 7}})
			return now
		}
		refuses(t, w, 2)
		refuses(t, c.writer(t, file, nil), 2)
		must.Do(t, w.Acknowledge(t.Context(), "restored"))
		all, _ := lines(t, file)
		if a := all[1].Acknowledged; a == nil || !a.Changes || len(a.Chains) != 1 || a.Chains[0] != (Lost{ChainID{1}, 5, 6}) {
			t.Errorf("%s: lines %+v", name, all)
		}
		c.then = nil
		write(t, w)
		c.grow(1, 7)
		c.heads.ChangeSeq, c.heads.ChangeHead = 6, spend.Hash{6}
		write(t, w) // as they were
		write(t, c.writer(t, file, nil))
	}
}

// TestFilesBeside: a process with a new file compares with the newest file beside it, and an
// acknowledgement in one file counts for all.
func TestFilesBeside(t *testing.T) {
	dir := t.TempDir()
	c := lose(t, filepath.Join(dir, "node1.jsonl"))
	must.Do(t, os.WriteFile(filepath.Join(dir, "other.jsonl"), []byte("{}\n"), 0o600))
	must.Do(t, os.Mkdir(filepath.Join(dir, "folder.jsonl"), 0o700))
	two, three := c.writer(t, filepath.Join(dir, "node2.jsonl"), nil), c.writer(t, filepath.Join(dir, "node3.jsonl"), nil)
	refuses(t, two, 2)
	must.Do(t, three.Acknowledge(t.Context(), "restored"))
	write(t, two)
	write(t, c.writer(t, filepath.Join(dir, "node1.jsonl"), nil))
	write(t, c.writer(t, filepath.Join(dir, "node4.jsonl"), nil))
}

// TestFileWithoutExtension is alone in its folder, whatever else there is.
func TestFileWithoutExtension(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	c := lose(t, filepath.Join(dir, "one"))
	write(t, c.writer(t, filepath.Join(dir, "two"), nil))
}

// TestFilePutAway: a process remembers what it signed in a file that was removed.
func TestFilePutAway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var c chains
	c.grow(1, 5)
	w := c.writer(t, file, nil)
	write(t, w)
	must.Do(t, os.Rename(file, file+".old"))
	c.grow(1, 4)
	refuses(t, w, 1)
	c.grow(1, 6)
	write(t, w)
	if all, _ := lines(t, file); len(all) != 1 || !all[0].Full {
		t.Errorf("lines %+v", all)
	}
}

// TestAlteredFile signs nothing behind lines that were altered.
func TestAlteredFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var c chains
	c.grow(1, 5)
	w := c.writer(t, file, nil)
	write(t, w)
	c.grow(1, 6)
	write(t, w)
	whole := must.Get(os.ReadFile(file))(t)
	first, second, _ := strings.Cut(string(whole), "\n")
	for name, content := range map[string]string{
		"the last line":   first + "\n" + strings.Replace(second, `"seq":6`, `"seq":5`, 1),
		"the line before": strings.Replace(first, `"chain":"01`, `"chain":"02`, 1) + "\n" + second,
	} {
		must.Do(t, os.WriteFile(file, []byte(content), 0o600))
		if err := c.writer(t, file, nil).Write(t.Context()); !errors.Is(err, errAltered) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
