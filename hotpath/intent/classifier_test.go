package intent

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// classifier is shared by the tests, which shows that one may be.
var classifier = sync.OnceValue(New)

func TestTheFourTypes(t *testing.T) {
	for text, want := range map[string]spend.ActionType{
		"make the customer whole":                    spend.Refund,
		"send the money back":                        spend.Refund,
		"chargeback settle":                          spend.Refund,
		"void the sale":                              spend.Refund,
		"reimburse the customer for return postage":  spend.Refund,
		"credit the amount back to her card":         spend.Refund,
		"put 20 bucks on their account":              spend.Credit,
		"wallet top up as apology":                   spend.Credit,
		"goodwill gesture":                           spend.Credit,
		"gift card as compensation":                  spend.Credit,
		"issue a CN":                                 spend.Credit,
		"knock 15% off":                              spend.Discount,
		"waive part of the price":                    spend.Discount,
		"PRICE MATCH":                                spend.Discount,
		"promo code SPRING":                          spend.Discount,
		"settle the acme bill":                       spend.Spend,
		"reimburse an employee's travel expense":     spend.Spend,
		"buy gift cards for the staff party":         spend.Spend,
		"pay the company's credit card bill":         spend.Spend,
		"PO 4411 to vendor":                          spend.Spend,
		"refnud":                                     spend.Refund,
		"discuont for him":                           spend.Discount,
		"purchse of desks":                           spend.Spend,
		"reimburs the customer":                      spend.Refund,
		"issueRefund":                                spend.Refund,
		"apply_store_credit":                         spend.Credit,
		"re\u200bfund 💸 the ＣＵＳＴＯＭＥＲ":                spend.Refund,
		"Rückerstattung":                             spend.Refund,
		"customer\u2019s refund":                     spend.Refund,
		"refund, order 1, order 2, order 3 !!! 🙂🙂🙂 ": spend.Refund,
	} {
		if got := classifier().Classify(text); got.Type != want || got.Confidence == spend.Low {
			t.Errorf("%q is %v %v, want %v", text, got.Type, got.Confidence, want)
		}
	}
}

// TestNegations: an action that is denied, replaced or only asked about yields to the intended one.
func TestNegations(t *testing.T) {
	for text, want := range map[string]spend.ActionType{
		"do not refund, give store credit":                                    spend.Credit,
		"don't refund give store credit":                                      spend.Credit,
		"no refund, apply credit":                                             spend.Credit,
		"refund denied; store credit issued":                                  spend.Credit,
		"customer wants a refund but will get a voucher":                      spend.Credit,
		"store credit instead of a refund":                                    spend.Credit,
		"rather than a refund, put it on her account":                         spend.Credit,
		"convert the refund to store credit":                                  spend.Credit,
		"instead of a discount refund her":                                    spend.Refund,
		"refund instead of store credit":                                      spend.Refund,
		"no credit, no coupon: refund":                                        spend.Refund,
		"customer declined store credit, refund the card":                     spend.Refund,
		"item not working refund it":                                          spend.Refund,
		"was not refunded yet, do it now":                                     spend.Refund,
		"refund because the discount was not applied":                         spend.Refund,
		"not a discount but a refund":                                         spend.Refund,
		"customer asked for a refund but we will offer 10% off next order":    spend.Discount,
		"no refund or credit, give a coupon":                                  spend.Discount,
		"refund not possible, 20% off instead":                                spend.Discount,
		"not a credit, a discount":                                            spend.Discount,
		"not a purchase, a discount for the customer":                         spend.Discount,
		"not a refund, pay the supplier's invoice":                            spend.Spend,
		"instead of asking for a discount buy it":                             spend.Spend,
		"no discount from the vendor, pay the invoice in full":                spend.Spend,
		"do not issue a credit note; pay the vendor":                          spend.Spend,
		"they requested a discount. However, manager approved a refund only.": spend.Refund,
	} {
		if got := classifier().Classify(text); got.Type != want {
			t.Errorf("%q is %v %v, want %v", text, got.Type, got.Confidence, want)
		}
	}
}

// TestNothingThere shows S19's default.
func TestNothingThere(t *testing.T) {
	want := spend.Resolution{Type: spend.Spend, Confidence: spend.Low}
	for _, text := range []string{
		"", " ", "\n\t", "...", "hello", "delete the database", "asdf", "12345", "🙂", "\xff\xfe", "日本語のテキスト",
		"a", "do not refund", "no discount", strings.Repeat("x", 4096), strings.Repeat("? ", 2048),
	} {
		if got := classifier().Classify(text); got != want {
			t.Errorf("%.40q is %v %v, want spend low", text, got.Type, got.Confidence)
		}
	}
}

// TestRealWordsAreNotCorrected shows that real words similar to lexicon words
// are not corrected.
func TestRealWordsAreNotCorrected(t *testing.T) {
	for _, text := range []string{"a viscount", "miscount", "a debate", "redaction", "costumers", "the probation", "monkey"} {
		if got := classifier().Classify(text); got.Confidence != spend.Low {
			t.Errorf("%q is %v %v", text, got.Type, got.Confidence)
		}
	}
}

// TestDeterminism runs separate classifiers concurrently on the same texts (S19).
func TestDeterminism(t *testing.T) {
	all := readExamples(t, corpusPath)
	want := make([]spend.Resolution, len(all))
	for i, e := range all {
		want[i] = classifier().Classify(e.text)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			other := New()
			for i, e := range all {
				if got := other.Classify(e.text); got != want[i] {
					t.Errorf("%q is %v, and %v to another", e.text, want[i], got)
				}
			}
		})
	}
	wg.Wait()
}

// TestAmountsDoNotMatter changes every digit: the classifier judges words (S19).
func TestAmountsDoNotMatter(t *testing.T) {
	for _, e := range readExamples(t, corpusPath) {
		other := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0' + (r-'0'+7)%10
			}
			return r
		}, e.text)
		if a, b := classifier().Classify(e.text), classifier().Classify(other); a != b {
			t.Errorf("%q is %v, %q is %v", e.text, a, other, b)
		}
	}
}

// TestCaseDoesNotMatter compares texts in plain lower case with the same in
// capitals.
func TestCaseDoesNotMatter(t *testing.T) {
	for _, e := range readExamples(t, corpusPath) {
		lower, upper := strings.ToLower(e.text), strings.ToUpper(e.text)
		if strings.ToLower(upper) != lower {
			continue // ß
		}
		if a, b := classifier().Classify(lower), classifier().Classify(upper); a != b {
			t.Errorf("%q is %v, in capitals %v", lower, a, b)
		}
	}
}

// TestLongText shows that the beginning and the end of a long text decide.
func TestLongText(t *testing.T) {
	filler := strings.Repeat("the agent looked at the record and wrote about it. ", 70)
	for _, text := range []string{"Refund the customer. " + filler, filler + "Refund the customer."} {
		if got := classifier().Classify(text); got.Type != spend.Refund {
			t.Errorf("%d bytes: %v %v", len(text), got.Type, got.Confidence)
		}
	}
}

// TestTables shows that a faulty table is refused, with its line.
func TestTables(t *testing.T) {
	for _, bad := range []string{
		"refund x refund", "refund 10 @nobody", "cue maybe refund", "wish 10 refund",
		"refund 10 * back", "refund 10 back *", "refund 10 a b c d e f g h i", "skip @nobody",
	} {
		if _, err := parseLexicon("# head\n" + bad); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	x := must.Get(parseLexicon("refund 10 refund"))(t)
	for _, bad := range []string{"refund\t1\t2\tx\t4\t5", "refund\t1\t2\t3\t4\t5\t6", "refund"} {
		if x.parseWeights(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		"no refund, apply credit", "issueRefund 10%off", "é\u0301\u200b\xff", "don't", "%", strings.Repeat("a,", 3000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.RuneCountInString(s) > spend.MaxReasonText {
			return
		}
		e := classifier().Classify(s)
		if e.Type < spend.Refund || e.Type > spend.Spend || e.Confidence > spend.High {
			t.Errorf("%q is %d %d", s, e.Type, e.Confidence)
		}
	})
}
