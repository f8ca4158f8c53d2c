package intent

import (
	"strings"
	"testing"
	"time"
)

func BenchmarkClassify(b *testing.B) {
	c := New()
	var corpus []string
	for _, e := range readExamples(b, corpusPath) {
		corpus = append(corpus, e.text)
	}
	b.Run("corpus", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c.Classify(corpus[i%len(corpus)])
		}
	})
	for name, s := range slowTexts() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Classify(s)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New()
	}
}

// slowTexts are of the greatest length, and of what costs most.
func slowTexts() map[string]string {
	return map[string]string{
		"4096-prose":   strings.Repeat("customer asked for a refund but we give credit instead, ", 74)[:4096],
		"4096-unknown": strings.Repeat("rezumption qwertyable ", 187)[:4096],
		"4096-cues":    strings.Repeat("not ", 1024),
		"4096-gaps":    strings.Repeat("give the a b c ", 274)[:4096],
		"4096-marks":   strings.Repeat("\u0301", 4096),
	}
}

// TestBoundedTime has a limit that a busy machine meets; the benchmark measures.
func TestBoundedTime(t *testing.T) {
	c := New()
	for name, s := range slowTexts() {
		least := time.Hour
		for range 5 {
			start := time.Now()
			c.Classify(s)
			least = min(least, time.Since(start))
		}
		if least > 10*time.Millisecond {
			t.Errorf("%s takes %v", name, least)
		}
	}
}
