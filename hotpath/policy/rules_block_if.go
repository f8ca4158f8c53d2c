package policy

import (
	"cmp"
	"strconv"
	"strings"

	"spendgate/audit/spend"
)

const (
	blockIf    = "block_if"
	maxMessage = 255
)

// blockIfCondition blocks what the conditions of the rule match (S88).
type blockIfCondition struct{ message string }

var blockIfParameters = []Parameter{
	{Name: "message", Max: maxMessage, Example: `"No expense over 75 without a receipt"`, Text: "what the caller is told"},
}

func compileBlockIf(o *objectReader, r *rule) string {
	r.condition = &blockIfCondition{cmp.Or(o.text("message"), "rule "+strconv.Quote(r.id)+" blocks this action")}
	if r.when == nil {
		o.log.add(strings.TrimSuffix(o.path, "parameters")+"when", isRequired)
	}
	return "Blocks actions"
}

func (c *blockIfCondition) judge(*spend.Action, moment) spend.Reason { return spend.ReasonConditionMet }

func (c *blockIfCondition) explain(_ Finding, _ *spend.Action, g *guardSettings) (message, nextStep string) {
	return c.message, "Do not proceed. If the action can be changed so that the rule permits it, check again" + g.afterBlock() +
		"; do not state something untrue to get past it."
}
