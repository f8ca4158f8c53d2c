package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestTamperedCheckpoints changes the file.
func TestTamperedCheckpoints(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	for range 3 {
		tr.records = append(tr.records, tr.recordMore())
		tr.sign()
	}
	content := must.Get(os.ReadFile(tr.file))(t)
	lines := strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	other := must.Get(checkpoint.NewKey(bytes.Repeat([]byte{8}, 32)))(t)
	const second, third, fourth = "altered checkpoint on line 2", "altered checkpoint on line 3", "altered checkpoint on line 4"
	for name, c := range map[string]struct {
		lines []string
		want  []string
	}{
		"as it is":        {lines, nil},
		"torn":            {[]string{lines[0], lines[1], lines[2][:len(lines[2])/2] + "\n", lines[2], lines[3][:50]}, nil},
		"taken out":       {[]string{lines[0], lines[2], lines[3]}, []string{second, second}}, // the line before, and the digest
		"begin cut off":   {lines[1:], []string{"altered checkpoint on line 1", "altered checkpoint on line 1", second, third}},
		"altered":         {[]string{lines[0], strings.Replace(lines[1], `"seq":`, `"seq":1`, 1), lines[2], lines[3]}, []string{second, third}},
		"put in disorder": {[]string{lines[0], lines[2], lines[1], lines[3]}, []string{second, second, third, fourth}},
		"empty":           {nil, []string{"unchecked checkpoints"}},
	} {
		got, s, err := tr.verify(func(o *verify.Options) {
			o.Checkpoints, o.PublicKey = []verify.Checkpoints{{Lines: strings.NewReader(strings.Join(c.lines, ""))}}, tr.key
		})
		if err != nil || !covers(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
		if torn := s.TornCheckpoints; torn != map[string]int64{"torn": 2}[name] {
			t.Errorf("%s: %d lines were passed over", name, torn)
		}
	}
	tr.exec("DELETE FROM policies WHERE version = 3; DELETE FROM changes WHERE seq = 3")
	tr.finds(tr.held, "removed change 3 of the configuration") // once, not with each line
	found, s, err := tr.verify(func(o *verify.Options) { tr.held(o); o.PublicKey = other.Public() })
	if err != nil || len(found) != 5 || s.Checkpoints != 0 { // four lines, and that there are none
		t.Errorf("with another key: %v, %v", found, err)
	}
}

// TestSeveralFilesOfCheckpoints: only earlier files show what was rewritten before a process began
// a new file.
func TestSeveralFilesOfCheckpoints(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	before := tr.file
	tr.forget(tr.chains[1], 1)
	tr.file = filepath.Join(t.TempDir(), "later.jsonl")
	tr.checkpoints = tr.newCheckpoints()
	tr.sign()
	tr.finds(tr.heldTo(tr.file))
	tr.finds(tr.heldTo(tr.file, before), chainFinding("removed", tr.chains[1]))
	tr.finds(tr.heldTo(before, tr.file), chainFinding("removed", tr.chains[1]))
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	tr.finds(tr.heldTo(tr.file, empty), "unchecked checkpoints of empty.jsonl")
}

// heldTo has a trail verified with files of checkpoints.
func (tr *trail) heldTo(files ...string) func(*verify.Options) {
	return func(o *verify.Options) {
		o.PublicKey = tr.key
		for _, file := range files {
			content := must.Get(os.ReadFile(file))(tr.t)
			o.Checkpoints = append(o.Checkpoints, verify.Checkpoints{Name: filepath.Base(file), Lines: bytes.NewReader(content)})
		}
	}
}

// covers reports whether all that is wanted was found, and nothing when nothing
// is wanted: a line that was tampered with may be named for more than one reason.
func covers(got, want []string) bool {
	for _, w := range want {
		if !slices.Contains(got, w) {
			return false
		}
	}
	return len(want) > 0 || len(got) == 0
}

// recordMore continues with a chain of its own.
func (tr *trail) recordMore() []*spend.Check {
	chainID := spend.NewID(time.Now())
	tr.chains = append(tr.chains, chainID)
	return tr.record(tr.writer, chainID)
}

// TestDigestOfACheckpoint finds a line that was signed with another digest or count than its heads
// have: its signer did not see everything.
func TestDigestOfACheckpoint(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	content := must.Get(os.ReadFile(tr.file))(t)
	signed, _, _ := strings.Cut(string(content), `,"signature":"`)
	_, digest, _ := strings.Cut(signed, `"digest":"`)
	for name, text := range map[string]string{
		"digest": strings.Replace(signed, digest[:64], strings.Repeat("00", 32), 1),
		"count":  strings.Replace(signed, `"chains":2`, `"chains":3`, 1),
		"none":   signed,
	} {
		secret := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
		signature := ed25519.Sign(secret, []byte("spendgate checkpoint 1\n"+text))
		line := text + `,"signature":"` + base64.StdEncoding.EncodeToString(signature) + "\"}\n"
		var want []string
		if name != "none" {
			want = []string{"altered checkpoint on line 1"}
		}
		tr.finds(func(o *verify.Options) {
			o.Checkpoints, o.PublicKey = []verify.Checkpoints{{Lines: strings.NewReader(line)}}, tr.key
		}, want...)
	}
}
