package spend

import (
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

// Between returns those above one percentage, up to another.
func (p Percentages) Between(above, upTo int) (found []int) {
	for text := range strings.SplitSeq(string(p), ",") {
		if n, err := strconv.Atoi(text); err == nil && n > above && n <= upTo {
			found = append(found, n)
		}
	}
	return found
}

// Reached returns the largest of the percentages of the charge that a usage reaches, by its amount or its number; 0 if it
// reaches none. No usage reaches a percentage of nothing.
func (c *Charge) Reached(u Usage) (reached int) {
	hundredfold := u.Used.Times(100)
	for _, n := range c.NotifyAt.Between(0, Exhausted) {
		limit := c.Limit.Total()
		if c.Limited && limit != (Total{}) && hundredfold.Cmp(limit.Times(n)) >= 0 ||
			c.Counted && c.MaxCount > 0 && u.Count*100 >= c.MaxCount*int64(n) {
			reached = n
		}
	}
	return reached
}

// Times returns the total n times.
func (t Total) Times(n int) (product Total) {
	for range n {
		product = product.Plus(t)
	}
	return product
}
