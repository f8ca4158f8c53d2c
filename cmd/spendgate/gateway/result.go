package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/hotpath/client"
	"spendgate/hotpath/client/pay"
)

// The states of a mapped call.
const (
	stateExecuted = "executed"
	stateRefused  = "refused"
	statePending  = "pending"
	stateDenied   = "denied"
	stateExpired  = "expired"
	stateAlready  = "already_executed"
	stateInDoubt  = "in_doubt"
	stateError    = "error"
)

// The members of a result's _meta.
const (
	metaCheckID  = "spendgate/check_id"
	metaDecision = "spendgate/decision"
	metaState    = "spendgate/state"
	metaShadow   = "spendgate/shadow" // the state that a call would have had
)

// end is how a mapped call ended.
type end struct {
	state    string
	checkID  string
	decision string
	shadow   string
	isError  bool
	text     string              // for the model; empty if the server's own result is given
	server   *mcp.CallToolResult // nil if the server gave none
	ask      mcp.InputRequestMap // what the agent's user is to see first
}

// result returns the result for the agent.
func (e end) result() *mcp.CallToolResult {
	r := new(mcp.CallToolResult)
	if e.ask != nil {
		r.InputRequests = e.ask
		return r
	}
	if e.server != nil {
		*r = *e.server
	}
	if e.text != "" {
		r.Content = append([]mcp.Content{&mcp.TextContent{Text: e.text}}, r.Content...)
		r.IsError = e.isError
		if e.isError {
			r.StructuredContent, r.InputRequests = nil, nil
		}
	}
	meta := mcp.Meta{metaCheckID: e.checkID, metaDecision: e.decision, metaState: e.state, metaShadow: e.shadow}
	maps.DeleteFunc(meta, func(_ string, value any) bool { return value == "" })
	for name, value := range r.Meta {
		if !strings.HasPrefix(name, "spendgate/") {
			meta[name] = value
		}
	}
	r.Meta = meta
	return r
}

// refusedTool returns the end of a call of a tool that is off.
func refusedTool(err error) end {
	return end{state: stateRefused, isError: true, text: "Refused: " + err.Error() + "."}
}

// failure returns the end of a call that was not carried out for a reason other than a decision.
func failure(format string, args ...any) end {
	return end{state: stateError, isError: true, text: "Error, and nothing was carried out by this call: " + fmt.Sprintf(format, args...)}
}

// ended returns the end of a call as its guard says.
func (c *mappedCall) ended(r pay.Result) end {
	e := c.said(r)
	if r.Check != nil {
		e.checkID, e.decision = r.Check.CheckID, r.Check.Decision.String()
	}
	return e
}

const sameAgain = " Call again later with exactly the same arguments."

func (c *mappedCall) said(r pay.Result) end {
	bad := func(state, text string) end { return end{state: state, isError: true, text: text} }
	switch r.State {
	case pay.Ran:
		return end{state: stateExecuted, server: c.answer.result}
	case pay.Already:
		return end{state: stateAlready, text: alreadyText(r.Check.CheckID, r.Reference)}
	case pay.Blocked, pay.Stopped:
		return bad(stateRefused, "Refused: "+reason(r.Check))
	case pay.Denied:
		return bad(stateDenied, "Denied by people. Do not try it another way. "+reason(r.Check))
	case pay.Expired:
		return bad(stateExpired, "Nobody decided in time, and nothing was carried out. Call again with exactly the same arguments to ask "+
			"again. Check: "+r.Check.CheckID)
	case pay.Pending:
		return bad(statePending, "Waiting for people to approve. Nothing was carried out yet. Call this tool again with exactly the same "+
			"arguments: it goes on once they approved. "+reason(r.Check))
	case pay.InDoubt:
		e := bad(stateInDoubt, doubtText(r))
		if c.answer != nil {
			e.server = c.answer.result
		}
		return e
	case pay.Rejected:
		e := bad(stateError, "Declined: the server answered that it carried out nothing. The call may be made again. Check: "+r.Check.CheckID)
		e.server = c.answer.result
		return e
	case pay.Unanswered:
		return failure("%v.%s", r.Err, sameAgain)
	case pay.Error:
	}
	refused, ok := errors.AsType[*client.Error](r.Err)
	switch {
	case c.off != nil:
		return refusedTool(c.off)
	case !ok:
		return failure("%v.%s", r.Err, sameAgain)
	case refused.Code == client.CodeFrozen:
		return bad(stateRefused, "Refused: "+refused.Message+". Nothing was carried out. Call again once people have released it.")
	case refused.Code != client.CodePaymentDiffers:
		return failure("%v. Calling again changes nothing until somebody has corrected that.", refused)
	}
	text := "the same payment was asked for before with another " + strings.Join(refused.Differs, ", ")
	e := failure("%s. Check: %s", text, refused.CheckID)
	if p := refused.Payment; p != nil && p.State == "executed" {
		e = end{state: stateAlready, text: alreadyText(refused.CheckID, p.Reference) + " In this call, " + text + "."}
	}
	e.checkID = refused.CheckID
	return e
}

// would returns how enforcement would end a call by what a shadow was told.
func would(check *client.Result) end {
	e := end{state: stateError, checkID: check.CheckID, decision: check.Decision.String()}
	if check.Payment == nil {
		return e
	}
	e.state = cmp.Or(map[string]string{
		"open": stateExecuted, "executed": stateAlready, "escalated": stateRefused, "waiting": statePending, "denied": stateDenied,
		"redeemed": stateInDoubt, "in_doubt": stateInDoubt, "releasing": stateInDoubt,
	}[check.Payment.State], stateError)
	if check.Decision == client.Block && e.state != stateExecuted && e.state != stateAlready {
		e.state = stateRefused
	}
	return e
}

// reason returns why a check was not allowed, and what to do.
func reason(check *client.Result) string {
	text := check.Message
	if check.ReasonCode != "" {
		text = check.ReasonCode + ": " + text
	}
	if check.ApprovalID != "" {
		text += "\nApproval: " + check.ApprovalID
	}
	if check.NextStep != "" {
		text += "\nNext step: " + check.NextStep
	}
	return text + "\nCheck: " + check.CheckID
}

func alreadyText(checkID, reference string) string {
	text := "Already executed, under check " + checkID + ". It was not executed again."
	if reference != "" {
		text += " Reference: " + reference
	}
	return text
}

// doubtText returns the text about a payment that may have been carried out.
func doubtText(r pay.Result) string {
	text := "In doubt: the action may have been carried out, under check "
	if r.InProgress {
		text = "In progress: another call may still be carrying the action out, under check "
	}
	text += r.Check.CheckID + ". It is not carried out again until its outcome is known. Call again later with exactly the same arguments " +
		"to see it. Do not try it another way."
	if r.Err != nil {
		text += " What happened: " + r.Err.Error()
	}
	return text
}

// firstText returns the first text of a result. Some servers answer with text as JSON.
func firstText(r *mcp.CallToolResult) string {
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			quoted, _ := textOf(jsontext.Value(text.Text))
			return cmp.Or(quoted, text.Text)
		}
	}
	return ""
}
