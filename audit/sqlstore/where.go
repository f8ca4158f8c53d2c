package sqlstore

import (
	"strconv"
	"strings"
)

// where is the conditions of a query, and its arguments.
type where struct {
	text string
	args []any
}

// String returns the conditions as a query has them.
func (w *where) String() string { return strings.Replace(w.text, " AND ", " WHERE ", 1) }

// arg adds an argument and returns its parameter.
func (w *where) arg(value any) string {
	w.args = append(w.args, value)
	return "$" + strconv.Itoa(len(w.args))
}

// and adds a condition that ends with a value.
func (w *where) and(condition string, value any) { w.text += " AND " + condition + w.arg(value) }

// is adds the condition that a column has a value, unless the value is empty.
func (w *where) is(column, value string) {
	if value != "" {
		w.and(column+" = ", value)
	}
}

// in adds the condition that a column has one of the values, unless they are nil.
func in[T any](w *where, column string, values []T) {
	if values == nil {
		return
	}
	w.text += " AND " + column + " IN (NULL" // never none
	for _, value := range values {
		w.text += ", " + w.arg(value)
	}
	w.text += ")"
}
