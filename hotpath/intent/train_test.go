package intent

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"spendgate/bench/must"
)

var update = flag.Bool("update", false, "fit weights.tsv to the training part of the corpus")

// The fit is a multinomial logistic regression over words and neighbouring words, with the
// lexicon's evidence as a fixed offset, so that it learns only what the lexicon lacks.
const (
	epochs    = 300
	rate      = 0.5
	decay     = 0.1 // of the squared weights, per example
	leastSeen = 2   // lines that must have a word before it gets a weight
	maxPoints = 15
)

type feature struct {
	key   string
	value float64
}

// featuresOf lists what context sums in a text, and the offset to it.
func featuresOf(x *lexicon, s string) (fs []feature, offset [classes]float64) {
	var t text
	x.read(&t, s)
	for class, v := range x.score(&t) {
		offset[class] = float64(v) / unit
	}
	length := 1.0
	if t.n > longText {
		length = float64(longText) / float64(t.n)
	}
	name := func(id term) string {
		switch id {
		case number:
			return "#"
		case percentage:
			return "%"
		}
		return x.names[id]
	}
	last, lastScale := softBreak, 0
	for _, tok := range t.tokens[:t.n] {
		scale := int(tok.scale)
		if tok.term >= 0 && !x.function(tok.term) {
			fs = append(fs, feature{name(tok.term), length * float64(scale) / full})
		}
		if last > softBreak && last != unknown && tok.term > softBreak && tok.term != unknown {
			fs = append(fs, feature{name(last) + " " + name(tok.term), length * float64(min(scale, lastScale)) / full})
		}
		last, lastScale = tok.term, scale
	}
	return fs, offset
}

// function reports whether a word is a function word: alone it is evidence of
// style only.
func (x *lexicon) function(id term) bool {
	if x.groups[id]&(x.thin|x.past|x.or|x.groupIDs["grammar"]) != 0 {
		return true
	}
	for _, p := range x.patterns[id] {
		if p.words == 1 && p.cue != noCue {
			return true
		}
	}
	return false
}

// learnWords adds to the vocabulary the words that enough lines have and that
// are no misspelling of a lexicon word.
func learnWords(x *lexicon, train []example) {
	seen := make(map[string]int)
	for _, e := range train {
		var t text
		x.scan(&t, e.text)
		line := make(map[string]bool)
		for _, tok := range t.tokens[:t.n] {
			if w := strings.ToLower(e.text[tok.start:tok.end]); tok.term == unknown && plain(w) {
				line[string(stem([]byte(w)))] = true
			}
		}
		for w := range line {
			seen[w]++
		}
	}
	var words []string
	for w, n := range seen {
		if n >= leastSeen {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	for _, w := range words {
		x.internStem(w)
	}
}

func plain(w string) bool {
	return len(w) > 0 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == ""
}

// fit returns the weights for the training examples, by feature.
func fit(t testing.TB, train []example) (*lexicon, map[string]weights) {
	x := must.Get(parseLexicon(lexiconText))(t)
	x.bias[noneClass] = 15
	learnWords(x, train)
	type row struct {
		features []feature
		offset   [classes]float64
	}
	rows := make([]row, len(train))
	count := make(map[string]int)
	for i, e := range train {
		rows[i].features, rows[i].offset = featuresOf(x, e.text)
		line := make(map[string]bool)
		for _, f := range rows[i].features {
			line[f.key] = true
		}
		for k := range line {
			count[k]++
		}
	}
	w := make(map[string]*[classes]float64)
	for k, n := range count {
		if n >= leastSeen {
			w[k] = &[classes]float64{}
		}
	}
	bias := &[classes]float64{}
	step := rate
	for range epochs {
		for i, r := range rows {
			p := softmax(r.features, r.offset, w, bias)
			p[train[i].class]--
			for class, g := range p {
				bias[class] -= step * 0.1 * g
			}
			for _, f := range r.features {
				if v := w[f.key]; v != nil {
					for class, g := range p {
						v[class] -= step * (g*f.value + decay*v[class])
					}
				}
			}
		}
		step *= 0.985
	}
	result := make(map[string]weights)
	for k, v := range w {
		if p := points(v); p != (weights{}) {
			result[k] = p
		}
	}
	b := points(bias)
	b[noneClass] += 15
	result["*"] = b
	return x, result
}

func softmax(fs []feature, s [classes]float64, w map[string]*[classes]float64, bias *[classes]float64) [classes]float64 {
	for class := range s {
		s[class] += bias[class]
	}
	for _, f := range fs {
		if v := w[f.key]; v != nil {
			for class := range s {
				s[class] += f.value * v[class]
			}
		}
	}
	top, sum := slices.Max(s[:]), 0.0
	for class := range s {
		s[class] = math.Exp(s[class] - top)
		sum += s[class]
	}
	for class := range s {
		s[class] /= sum
	}
	return s
}

func points(v *[classes]float64) (p weights) {
	for class, f := range v {
		p[class] = int16(max(-maxPoints, min(maxPoints, math.Round(f*10))))
	}
	return p
}

func formatWeights(w map[string]weights) string {
	keys := make([]string, 0, len(w))
	for k := range w {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	b.WriteString("# Fitted to the training part of testdata/corpus.tsv by go test -run TestWeights -update.\n# stem or two stems, " +
		"then tenths of log-odds for: " + strings.Join(classNames[:], " ") + "\n")
	for _, k := range keys {
		b.WriteString(k)
		for _, v := range w[k] {
			fmt.Fprintf(&b, "\t%d", v)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func parseLines(text string) map[string]weights {
	all := make(map[string]weights)
	for line := range strings.Lines(text) {
		if key, rest, ok := strings.Cut(line, "\t"); ok {
			var w weights
			for class, field := range strings.Fields(rest) {
				if _, err := fmt.Sscan(field, &w[class]); err != nil {
					panic("BUG: a weight is no number: " + err.Error())
				}
			}
			all[key] = w
		}
	}
	return all
}

// TestWeights shows that weights.tsv is exactly the fit to the training part of
// the corpus.
func TestWeights(t *testing.T) {
	train, _ := split(readExamples(t, corpusPath))
	_, w := fit(t, train)
	text := formatWeights(w)
	if *update {
		must.Do(t, os.WriteFile("weights.tsv", []byte(text), 0o644))
		return
	}
	// A processor that fuses multiplication and addition may round the last
	// point of a weight otherwise.
	want, got := parseLines(text), parseLines(weightsText)
	for k, a := range want {
		b, ok := got[k]
		for class := range a {
			if !ok || a[class]-b[class] > 1 || b[class]-a[class] > 1 {
				t.Fatalf("weights.tsv is stale at %q: run go test -run TestWeights -update", k)
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("weights.tsv has %d weights, not %d", len(got), len(want))
	}
}

// TestCrossValidation fits to four fifths of the training part and evaluates the
// rest, so that a change can be assessed without the held-out part.
func TestCrossValidation(t *testing.T) {
	if testing.Short() {
		t.Skip("fits five times")
	}
	train, _ := split(readExamples(t, corpusPath))
	const folds = 5
	total := &report{}
	for fold := range folds {
		var in, out []example
		for i, e := range train {
			if i%folds == fold {
				out = append(out, e)
			} else {
				in = append(in, e)
			}
		}
		x, w := fit(t, in)
		for k, v := range w {
			x.setWeights(k, v)
		}
		r := evaluate(&Classifier{x}, out)
		total.total += r.total
		total.right += r.right
		for class := range classes {
			total.byClass[class][0] += r.byClass[class][0]
			total.byClass[class][1] += r.byClass[class][1]
		}
		for i := range total.byConfidence {
			total.byConfidence[i][0] += r.byConfidence[i][0]
			total.byConfidence[i][1] += r.byConfidence[i][1]
		}
		total.wrong = append(total.wrong, r.wrong...)
	}
	t.Logf("cross-validation within the training part: %v", total)
	t.Log("wrong:\n" + strings.Join(total.wrong, "\n"))
	if total.accuracy() < leastAccuracy {
		t.Errorf("accuracy %.3f is under %.2f", total.accuracy(), leastAccuracy)
	}
}
