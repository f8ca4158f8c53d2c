package policy

import (
	"strconv"
	"strings"

	"spendgate/audit/spend"
)

// blockedCategories blocks actions of the listed categories.
type blockedCategories struct{ names }

var blockedCategoriesParameters = []Parameter{
	{Name: "categories", Required: true, Example: `["gambling", "gift_cards"]`, Text: "what may not be bought, whatever its case"},
	onMissingParameter, approvalParameter,
}

func compileBlockedCategories(o *objectReader, r *rule) string {
	listed := o.entries("categories")
	r.condition = &blockedCategories{newNames(listed)}
	return "Blocks the categories " + enumerate(listed)
}

func (c *blockedCategories) judge(a *spend.Action, _ moment) spend.Reason {
	switch {
	case a.Metadata.Category == "":
		return spend.ReasonRequiredContextMissed
	case c.has(a.Metadata.Category):
		return spend.ReasonBlockedCategory
	}
	return spend.ReasonNone
}

func (c *blockedCategories) explain(_ Finding, a *spend.Action, _ *guardSettings) (message, nextStep string) {
	return "category " + strconv.Quote(strings.TrimSpace(a.Metadata.Category)) + " is blocked",
		"Do not proceed: the policy allows nothing in this category. Do not name another category to get past it."
}
