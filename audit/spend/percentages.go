package spend

import (
	"slices"
	"strconv"
	"strings"
)

// MaxPercentages is how many a budget may name (S90).
const MaxPercentages = 5

// Exhausted is the percentage of a counter that has no room left.
const Exhausted = 100

// Percentages are percentages of a limit, ascending, with commas between them: "50,80". They can be compared.
type Percentages string

// PercentagesOf returns sorted percentages.
func PercentagesOf(sorted []int) Percentages {
	texts := make([]string, len(sorted))
	for i, n := range sorted {
		texts[i] = strconv.Itoa(n)
	}
	return Percentages(strings.Join(texts, ","))
}

// all returns the percentages.
func (p Percentages) all() (found []int) {
	for text := range strings.SplitSeq(string(p), ",") {
		if n, err := strconv.Atoi(text); err == nil {
			found = append(found, n)
		}
	}
	return found
}

// Without returns those that others have not.
func (p Percentages) Without(others Percentages) []int {
	had := others.all()
	return slices.DeleteFunc(p.all(), func(n int) bool { return slices.Contains(had, n) })
}

// With adds a percentage.
func (p Percentages) With(percent int) Percentages {
	all := append(p.all(), percent)
	slices.Sort(all)
	return PercentagesOf(all)
}

// Reached returns those of the percentages of the charge's limits that a usage reaches, by its amount or its number. No usage
// reaches a percentage of nothing.
func (c *Charge) Reached(of Percentages, u Usage) Percentages {
	limit, hundredfold := c.Limit, u.Used.Times(Exhausted)
	return PercentagesOf(slices.DeleteFunc(of.all(), func(n int) bool {
		byAmount := c.Limited && !limit.IsZero() && hundredfold.Cmp(limit.Times(n)) >= 0
		return !byAmount && (!c.Counted || c.MaxCount == 0 || u.Count*Exhausted < c.MaxCount*int64(n))
	}))
}

// Times returns the total n times.
func (t Total) Times(n int) (product Total) {
	for range n {
		product = product.Plus(t)
	}
	return product
}
