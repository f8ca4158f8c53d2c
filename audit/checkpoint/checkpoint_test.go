package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// chains are the heads that a test changes.
type chains struct {
	mu    sync.Mutex
	heads chain.Heads
	err   error
	then  func(chain.Heads) chain.Heads // changes the heads that chains have at given numbers; nil: changes nothing
}

func (c *chains) read(context.Context) (chain.Heads, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.heads
	h.Chains = append([]chain.Head(nil), h.Chains...)
	return h, c.err
}

func (c *chains) readAt(_ context.Context, then chain.Heads) (chain.Heads, error) {
	if c.then != nil {
		then = c.then(then)
	}
	return then, c.err
}

func (c *chains) grow(chainID byte, seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.heads.Chains {
		if c.heads.Chains[i].Chain == (spend.ID{chainID}) {
			c.heads.Chains[i].Seq, c.heads.Chains[i].Head = seq, spend.Hash{chainID, byte(seq)}
			return
		}
	}
	c.heads.Chains = append(c.heads.Chains, chain.Head{Chain: spend.ID{chainID}, Seq: seq, Head: spend.Hash{chainID, byte(seq)}})
}

func testKey(t *testing.T, seed byte) Key {
	t.Helper()
	return must.Get(NewKey(bytes.Repeat([]byte{seed}, 32)))(t)
}

func (c *chains) writer(t *testing.T, file string, reg prometheus.Registerer) *Writer {
	return NewWriter(Options{
		Heads: c.read, HeadsAt: c.readAt, Key: testKey(t, 1), File: file, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Registerer: reg,
	})
}

func write(t *testing.T, w *Writer) {
	t.Helper()
	must.Do(t, w.Write(t.Context()))
}

// lines parses the file and demands that each whole line follows the one before.
func lines(t *testing.T, file string) (all []Line, torn int) {
	t.Helper()
	content := must.Get(os.ReadFile(file))(t)
	var previous Hex
	for text := range strings.SplitSeq(strings.TrimSuffix(string(content), "\n"), "\n") {
		line, err := Parse([]byte(text), testKey(t, 1).Public())
		if errors.Is(err, ErrTorn) {
			torn++
			continue
		}
		if err != nil || line.Previous != previous {
			t.Errorf("line %d: %v, does not follow %x", len(all), err, previous)
		}
		previous = sha256.Sum256([]byte(text))
		all = append(all, line)
	}
	return all, torn
}

// TestLines: the first line of a process has all heads, the others what
// changed; the digest is over all.
func TestLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var c chains
	w := c.writer(t, file, nil)
	write(t, w) // of nothing
	c.grow(2, 1)
	c.grow(1, 5)
	c.heads.ChangeSeq, c.heads.ChangeHead = 3, spend.Hash{9}
	write(t, w)
	c.grow(1, 6)
	write(t, w)
	write(t, w)
	again := c.writer(t, file, nil) // another process, or the same after a restart
	c.grow(2, 2)
	write(t, again)
	all, _ := lines(t, file)
	if len(all) != 5 {
		t.Fatalf("%d lines", len(all))
	}
	for i, want := range []struct {
		full   bool
		heads  int
		chains int
	}{{true, 0, 0}, {false, 2, 2}, {false, 1, 2}, {false, 0, 2}, {true, 2, 2}} {
		if l := all[i]; l.Full != want.full || len(l.Heads) != want.heads || l.Chains != want.chains {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	if l := all[3]; l.Digest != Hex(
		Digest([]chain.Head{{Chain: spend.ID{2}, Seq: 1, Head: spend.Hash{2, 1}}, {Chain: spend.ID{1}, Seq: 6, Head: spend.Hash{1, 6}}})) ||
		l.Changes != (LastChange{3, Hex{9}}) {
		t.Errorf("line 3: %+v", l)
	}
}

// TestTornLine goes on behind a line that a crash cut anywhere.
func TestTornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var c chains
	for i := range 70 {
		c.grow(byte(i), 1)
	}
	write(t, c.writer(t, file, nil))
	whole := must.Get(os.ReadFile(file))(t)
	write(t, c.writer(t, file, nil))
	both := must.Get(os.ReadFile(file))(t)
	for _, cut := range []int{len(whole) + 1, len(whole) + 40, len(both) - 50, len(both) - 2, len(both) - 1} {
		must.Do(t, os.WriteFile(file, both[:cut], 0o600))
		w := c.writer(t, file, nil)
		write(t, w)
		write(t, w)
		all, torn := lines(t, file)
		wantTorn := 1
		if cut == len(both)-1 {
			wantTorn = 0 // all but the newline is there
		}
		if len(all)+torn != 4 || torn != wantTorn {
			t.Errorf("cut at %d: %d lines, %d torn", cut, len(all), torn)
		}
	}
	if err := os.WriteFile(file, whole[:20], 0o600); err != nil { // nothing whole is there
		t.Fatal(err)
	}
	write(t, c.writer(t, file, nil))
	if all, torn := lines(t, file); len(all) != 1 || torn != 1 || !all[0].Full {
		t.Errorf("%d lines, %d torn", len(all), torn)
	}
}

// TestLongLines finds the last line of a file whose lines are longer than one read.
func TestLongLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var c chains
	for i := range 3000 {
		c.heads.Chains = append(c.heads.Chains, chain.Head{Chain: spend.ID{byte(i), byte(i >> 8)}, Seq: 1})
	}
	for range 3 {
		write(t, c.writer(t, file, nil))
	}
	if all, _ := lines(t, file); len(all) != 3 || len(all[2].Heads) != 3000 {
		t.Errorf("%d lines", len(all))
	}
}

// TestWritersTakeTurns has many processes' worth of writers share a file.
func TestWritersTakeTurns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var c chains
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for i := range writers {
		w := c.writer(t, file, nil)
		wg.Go(func() {
			for seq := range int64(each) {
				c.grow(byte(i), seq+1)
				must.Check(t, w.Write(context.Background()))
			}
		})
	}
	wg.Wait()
	all, _ := lines(t, file)
	state := make(map[ChainID]Head)
	for i, l := range all {
		if l.Full {
			clear(state)
		}
		var heads []chain.Head
		for _, h := range l.Heads {
			state[h.Chain] = h
		}
		for _, h := range state {
			heads = append(heads, chain.Head{Chain: spend.ID(h.Chain), Seq: h.Seq, Head: spend.Hash(h.Head)})
		}
		if len(heads) != l.Chains || Digest(heads) != spend.Hash(l.Digest) {
			t.Errorf("line %d: its digest is not that of the lines so far", i)
		}
	}
	if len(all) != writers*each {
		t.Errorf("%d lines", len(all))
	}
}

// TestParse refuses lines that differ from what was signed.
func TestParse(t *testing.T) {
	key := testKey(t, 1)
	text := must.Get(key.sign(Line{Version: lineVersion, Heads: []Head{}}))(t)
	if _, err := Parse(text, key.Public()); err != nil {
		t.Error(err)
	}
	other := must.Get(key.sign(Line{Version: 2}))(t)
	for name, c := range map[string]struct {
		text string
		key  PublicKey
	}{
		"another key":     {string(text), testKey(t, 2).Public()},
		"another text":    {strings.Replace(string(text), `"chains":0`, `"chains":1`, 1), key.Public()},
		"another format":  {string(other), key.Public()},
		"another sign":    {strings.Replace(string(text), `signature":"`, `signature":"A`, 1), key.Public()},
		"more behind it":  {string(text) + " ", key.Public()},
		"a field behind":  {strings.TrimSuffix(string(text), "}") + `,"chains":"5"}`, key.Public()},
		"not to its end":  {string(text[:len(text)-1]), key.Public()},
		"nothing":         {"", key.Public()},
		"without the key": {string(text), PublicKey(make([]byte, 32))},
	} {
		if l, err := Parse([]byte(c.text), c.key); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
	for _, bad := range []string{"", "zz", strings.Repeat("ab", 31)} {
		if _, err := ParsePublicKey(bad); err == nil {
			t.Errorf("%q is a public key", bad)
		}
	}
}
