package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

// The names of the tools.
const (
	checkAction     = "check_financial_action"
	createPolicy    = "create_policy"
	getPolicy       = "get_policy"
	simulateActions = "simulate_actions"
	listViolations  = "list_violations"
	waitForApproval = "wait_for_approval"
	reportOutcome   = "report_outcome"
)

// tool is a tool's definition and the method that runs with arguments that fit its schema.
type tool struct {
	name, title, description string
	scope                    spend.Scopes // that an API key needs
	keyless                  bool         // works without an API key, too
	reads, destroys          bool         // hints
	input, output            *jsonschema.Schema
	run                      func(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error)
	wait                     time.Duration // how long a call may wait for people
	onError                  string        // what a model should do after an error
}

func (s *Server) tools() []tool {
	return []tool{
		{
			name: checkAction, title: "Check a financial action", description: checkDescription, scope: spend.ChecksWrite,
			input: actionSchema(true), output: checkedSchema(), run: s.check,
			onError: "There is no decision. Do not carry the action out.",
		},
		{
			name: createPolicy, title: "Create a policy or its next version", description: createDescription, scope: spend.PoliciesWrite,
			destroys: true, input: policySchema(), output: outputSchema[client.Policy](), run: s.createPolicy,
		},
		{
			name: getPolicy, title: "Read a policy", description: getDescription, scope: spend.PoliciesRead, reads: true,
			input: getSchema(), output: outputSchema[client.Policy](), run: s.getPolicy,
		},
		{
			name: simulateActions, title: "Simulate actions", description: simulateDescription, scope: spend.PoliciesRead, reads: true,
			keyless: true, input: simulateSchema(), output: simulatedSchema(), run: s.simulate,
		},
		{
			name: listViolations, title: "List violations", description: listDescription, scope: spend.ChecksRead, reads: true,
			input: listSchema(), output: violationsSchema(), run: s.listViolations,
		},
		{
			name: waitForApproval, title: "Wait for an approval", description: waitDescription, scope: spend.ApprovalsRead, reads: true,
			input: waitSchema(), output: approvalSchema(), run: s.waitForApproval, wait: maxWait,
			onError: "Nothing is approved by this. Do not carry the action out.",
		},
		{
			name: reportOutcome, title: "Report an outcome", description: reportDescription, scope: spend.OutcomesWrite,
			input: reportSchema(), output: outcomeSchema(), run: s.reportOutcome,
		},
	}
}

// definition returns the tool as it is listed. All hints are set: a tool that only reads is
// idempotent, and none is open-world.
func (t *tool) definition() *sdk.Tool {
	return &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: t.input, OutputSchema: t.output,
		Annotations: &sdk.ToolAnnotations{
			Title: t.title, ReadOnlyHint: t.reads, IdempotentHint: t.reads, DestructiveHint: &t.destroys, OpenWorldHint: new(false),
		},
	}
}

func (s *Server) createPolicy(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error) {
	p, err := s.store(ctx, arguments)
	if err != nil {
		return nil, err
	}
	return answer(fmt.Sprintf("Stored policy %s, version %d. Every check from now on is judged by it.", p.PolicyID, p.Version), p.Body), nil
}

// store sends the arguments as the body, so that every digit of them arrives, but for the
// condition, which is a header.
func (s *Server) store(ctx context.Context, arguments []byte) (*client.Policy, error) {
	var condition policyCondition
	if err := decode(arguments, &condition); err != nil {
		return nil, err
	}
	body, err := without(arguments, "replaces")
	switch {
	case err != nil:
		return nil, err
	case condition.Replaces == nil:
		return s.client.CreatePolicyJSON(ctx, body)
	default:
		return s.client.ReplacePolicyJSON(ctx, *condition.Replaces, body)
	}
}

func (s *Server) getPolicy(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error) {
	var q policyQuery
	if err := decode(arguments, &q); err != nil {
		return nil, err
	}
	p, err := s.client.Policy(ctx, q.PolicyID, q.Version)
	if err != nil {
		return nil, err
	}
	return answer(fmt.Sprintf("Policy %s, version %d, has %d rules.", p.PolicyID, p.Version, len(p.Rules)), p.Body), nil
}

func (s *Server) simulate(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error) {
	var q simulation
	if err := decode(arguments, &q); err != nil {
		return nil, err
	}
	result, err := s.client.Simulate(ctx, q.PolicyID, q.Actions)
	if err != nil {
		return nil, err
	}
	sum := result.Summary
	text := fmt.Sprintf("Simulated %d actions against policy %s, version %d: %d would be allowed, %d blocked, %d escalated. "+
		"Nothing was recorded, and nothing is permitted by this.", sum.Total, result.PolicyID, result.PolicyVersion, sum.Allowed, sum.Blocked,
		sum.Escalated)
	return answer(text, result.Body), nil
}

func (s *Server) listViolations(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error) {
	var q client.ViolationQuery
	if err := decode(arguments, &q); err != nil {
		return nil, err
	}
	page, err := s.client.Violations(ctx, q)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%d of %d violations, newest first.", len(page.Data), page.Pagination.TotalCount)
	if page.Pagination.HasMore {
		text = fmt.Sprintf("%d of %d violations, newest first; call again with cursor %s for more.",
			len(page.Data), page.Pagination.TotalCount, page.Pagination.NextCursor)
	}
	return answer(text, page.Body), nil
}

// outcomeReport are the arguments of report_outcome.
type outcomeReport struct {
	CheckID string `json:"check_id"`
	client.OutcomeReport
}

func (s *Server) reportOutcome(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error) {
	var report outcomeReport
	if err := decode(arguments, &report); err != nil {
		return nil, err
	}
	o, err := s.client.ReportOutcome(ctx, report.CheckID, report.OutcomeReport)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("Recorded: check %s was %s.", o.CheckID, o.Status)
	switch o.Release {
	case "done":
		text += " What it took from budgets was given back."
	case "pending":
		text += " Nothing is given back until a system that may release reports, too. Do not assume that the action may be checked again."
	}
	return answer(text, o.Body), nil
}

// answer returns the endpoint's answer, structured and, for clients that read only
// texts, as the first of two; the second is a summary in words.
func answer(words string, body []byte) *sdk.CallToolResult {
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: string(bytes.TrimSpace(body))}, &sdk.TextContent{Text: words}},
		StructuredContent: json.RawMessage(body),
	}
}
