package sqlstore

import (
	"strconv"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Where is the conditions of a query, and its arguments.
type Where struct {
	Text string
	Args []any
}

// String returns the conditions as a query has them.
func (w *Where) String() string { return strings.Replace(w.Text, " AND ", " WHERE ", 1) }

// Arg adds an argument and returns its parameter.
func (w *Where) Arg(value any) string {
	w.Args = append(w.Args, value)
	return "$" + strconv.Itoa(len(w.Args))
}

// And adds a condition that ends with a value.
func (w *Where) And(condition string, value any) { w.Text += " AND " + condition + w.Arg(value) }

// Range adds the condition that an identifier is in a range, whose end is excluded.
func (w *Where) Range(column string, low, end spend.ID) {
	w.And(column+" >= ", low)
	w.And(column+" < ", end)
}

// Is adds the condition that a column has a value, unless the value is empty.
func (w *Where) Is(column, value string) {
	if value != "" {
		w.And(column+" = ", value)
	}
}

// Within adds the conditions of what the asking key may see.
func (w *Where) Within(b audit.Bounds) {
	In(w, "policy_id", b.PolicyIDs)
	In(w, "agent_id", b.AgentIDs)
	w.Is("coalesce(principal, key_id)", b.Principal)
}

// In adds the condition that a column has one of the values, unless they are nil.
func In[T any](w *Where, column string, values []T) {
	if values != nil {
		Among(w, column, values)
	}
}

// Among adds the condition that a column has one of the values.
func Among[T any](w *Where, column string, values []T) {
	w.Text += " AND " + column + " IN (NULL" // never none
	for _, value := range values {
		w.Text += ", " + w.Arg(value)
	}
	w.Text += ")"
}
