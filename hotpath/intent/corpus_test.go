package intent

import (
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

const corpusPath = "testdata/corpus.tsv"

// leastAccuracy is what the held-out part of the corpus must reach.
const leastAccuracy = 0.95

// example is a line of the corpus.
type example struct {
	text  string
	class int
}

// heldOut reports whether the example is never trained on: about a quarter of
// the corpus, chosen by the text alone.
func (e example) heldOut() bool {
	h := fnv.New64a()
	h.Write([]byte(e.text))
	return h.Sum64()%4 == 0
}

// right reports whether r is what the example wants; text without an action is
// to be Spend with confidence Low.
func (e example) right(r spend.Resolution) bool {
	if e.class == noneClass {
		return r == spend.Resolution{Type: spend.Spend, Confidence: spend.Low}
	}
	return r.Type == spend.ActionTypes[e.class]
}

func readExamples(t testing.TB, path string) []example {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	var all []example
	seen := make(map[string]bool)
	for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		label, text, ok := strings.Cut(line, "\t")
		class := -1
		for i, name := range classNames {
			if name == label {
				class = i
			}
		}
		if !ok || class < 0 || seen[text] {
			t.Fatalf("%s:%d: a label and a text not seen before, not %q", path, n+1, line)
		}
		seen[text] = true
		all = append(all, example{text, class})
	}
	return all
}

// report is the outcome over some examples.
type report struct {
	total, right int
	byClass      [classes][2]int // total, right
	byConfidence [3][2]int
	wrong        []string
}

func (r *report) accuracy() float64 { return float64(r.right) / float64(max(r.total, 1)) }

func (r *report) String() string {
	s := fmt.Sprintf("%d of %d right, %.1f %%", r.right, r.total, 100*r.accuracy())
	for class, n := range r.byClass {
		s += fmt.Sprintf("; %s %d/%d", classNames[class], n[1], n[0])
	}
	for c, n := range r.byConfidence {
		s += fmt.Sprintf("; %v %d/%d", spend.Confidence(c), n[1], n[0])
	}
	return s
}

func evaluate(c *Classifier, all []example) *report {
	r := &report{}
	for _, e := range all {
		got := c.Classify(e.text)
		ok := 0
		if e.right(got) {
			ok = 1
		} else {
			r.wrong = append(r.wrong, fmt.Sprintf("%s, got %v %v: %s", classNames[e.class], got.Type, got.Confidence, e.text))
		}
		r.total++
		r.right += ok
		r.byClass[e.class][0]++
		r.byClass[e.class][1] += ok
		r.byConfidence[got.Confidence][0]++
		r.byConfidence[got.Confidence][1] += ok
	}
	return r
}

func split(all []example) (train, held []example) {
	for _, e := range all {
		if e.heldOut() {
			held = append(held, e)
		} else {
			train = append(train, e)
		}
	}
	return train, held
}

func TestAccuracy(t *testing.T) {
	all := readExamples(t, corpusPath)
	if len(all) < 800 {
		t.Errorf("the corpus has %d lines", len(all))
	}
	train, held := split(all)
	c := New()
	onTrain, onHeld := evaluate(c, train), evaluate(c, held)
	for name, r := range map[string]*report{"train": onTrain, "held-out": onHeld} {
		line := fmt.Sprintf("intent accuracy, %s: %v", name, r)
		fmt.Println(line)
		t.Log(line)
	}
	if onHeld.accuracy() < leastAccuracy {
		t.Errorf("held-out accuracy %.3f is under %.2f:\n%s", onHeld.accuracy(), leastAccuracy, strings.Join(onHeld.wrong, "\n"))
	}
}
