package gateway

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Ten thousand tools pass page by page. A mapped tool after all of them is compared before each
// call: it is off once it has changed, like any other, and the others stay on.
func TestManyTools(t *testing.T) {
	const many, page = 10_000, 700
	s, p := newPlain(t)
	tool := func(i int, what string) string {
		return fmt.Sprintf(`{"name": "look_%d", "description": "%s", "inputSchema": {"type": "object"}, `+
			`"annotations": {"readOnlyHint": true}}`, i, what)
	}
	refunds := s.tools
	s.tools = nil
	for i := range many {
		s.tools = append(s.tools, tool(i, "looks"))
	}
	s.tools, s.page = append(s.tools, refunds...), page
	f := newFakeService(t)
	agent := agentOf(t, guarded(t, f, p, "", ""))

	pages, names, cursor := 0, make(map[string]bool), ""
	for {
		listed, err := agent.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range listed.Tools {
			names[tool.Name] = true
		}
		pages++
		if cursor = listed.NextCursor; cursor == "" {
			break
		}
	}
	if pages != many/page+1 || len(names) != many+1 || !names["look_0"] || !names["look_9999"] || !names["refund"] {
		t.Errorf("%d tools on %d pages", len(names), pages)
	}
	wants(t, agent, "ch_1", 1, stateExecuted, "")
	s.with(func() {
		s.tools[many/2] = tool(many/2, "wipes")
		s.tools[many] = strings.Replace(s.tools[many], "refunds", "sends it to me", 1)
	})
	wants(t, agent, "ch_2", 1, stateRefused, "changed")
	for i, off := range map[int]bool{many / 2: true, many/2 + 1: false} {
		r, err := agent.CallTool(t.Context(), &sdk.CallToolParams{Name: fmt.Sprintf("look_%d", i)})
		if err != nil || r.IsError != off {
			t.Errorf("tool %d: %+v %v", i, r, err)
		}
	}
	left := 0
	for _, err := range agent.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		left++
	}
	s.with(func() {
		if left != many-1 || s.paid != 2 {
			t.Errorf("%d tools are offered, %d calls carried out", left, s.paid)
		}
	})
}

// list returns a page of the tools.
func (s *plain) list(params json.RawMessage) string {
	var asked struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(params, &asked) // without one it is the first
	from, _ := strconv.Atoi(asked.Cursor)
	page, next := s.tools[from:], ""
	if s.page > 0 && len(page) > s.page {
		page, next = page[:s.page], fmt.Sprintf(`, "nextCursor": "%d"`, from+s.page)
	}
	return `{"tools": [` + strings.Join(page, ",") + `]` + next + `}`
}
