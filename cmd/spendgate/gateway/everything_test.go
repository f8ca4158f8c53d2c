package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
)

// TestEverything: all messages of the protocol's reference server to an agent pass the gateway
// unchanged: lists, results, errors, progress, and requests to the agent. To agents of the other era, too, but for what that lacks.
func TestEverything(t *testing.T) {
	server := filepath.Join(os.Getenv("TEST_NODE_MODULES"), "@modelcontextprotocol/server-everything/dist/index.js")
	if _, err := os.Stat(server); err != nil {
		t.Skip("NOTICE: TEST_NODE_MODULES has no server-everything; deploy/npm/install.sh installs it and prints its value")
	}
	direct := transcript(t, func(client *sdk.Client) *sdk.ClientSession {
		return connect(t, client, &sdk.CommandTransport{Command: exec.Command("node", server)}, legacyVersion)
	})
	for _, want := range []string{
		"Echo: hé", "sampled", "step 2 of 2", "file:///root", "accepted", "simple-prompt", "demo://resource/dynamic/text",
	} {
		if !slices.ContainsFunc(direct, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("the server itself does not say %q", want)
		}
	}
	for _, e := range eras() {
		t.Run(e.version+" "+e.transport, func(t *testing.T) {
			listen := map[string]string{"stdio": "", "http": "listen: 127.0.0.1:0\n"}[e.transport]
			g := load(t, fmt.Sprintf("agent_id: a\nshadow: true\n%supstreams:\n  one:\n    command: [node, %q]\n", listen, server))
			through := transcript(t, func(client *sdk.Client) *sdk.ClientSession { return e.reach(t, g, client) })
			if e.version == latestVersion {
				sameWords(t, direct, through)
				return
			}
			for i := range max(len(direct), len(through)) {
				if i >= len(direct) || i >= len(through) || direct[i] != through[i] {
					t.Fatalf("line %d differs:\n%s\n%s", i, append(direct, "")[min(i, len(direct))], append(through, "")[min(i, len(through))])
				}
			}
		})
	}
}

// sameWords compares what the server says to agents of both eras: without what only one of them has in its messages.
func sameWords(t *testing.T, direct, through []string) {
	t.Helper()
	framing := regexp.MustCompile(`"_meta":{"io.modelcontextprotocol/serverInfo":{[^}]*}},?|,?"resultType":"complete",?|` +
		`"cacheScope":"\w*",?|sending "[^"]*": |: rejected by transport: Bad Request`)
	for i := range direct {
		direct[i] = framing.ReplaceAllString(direct[i], "")
	}
	lacks := regexp.MustCompile(`^(initialize|level|ping|trigger-sampling-request|trigger-elicitation-request|get-roots-list): `)
	same := 0
	for _, line := range through {
		if line = framing.ReplaceAllString(line, ""); lacks.MatchString(line) {
			continue
		}
		if same++; !slices.Contains(direct, line) {
			t.Errorf("the server itself does not say: %s", line)
		}
	}
	if same < 30 {
		t.Errorf("only %d messages", same)
	}
}

// transcript returns all messages of a server to an agent that uses all its features.
func transcript(t *testing.T, open func(*sdk.Client) *sdk.ClientSession) (lines []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	progress := make(chan string, 9)
	client := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(_ context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			asked, err := json.Marshal(r.Params.Messages)
			return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: "sampled " + string(asked)}}, err
		},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "accepted", "check": true}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			progress <- fmt.Sprintf("%v: step %v of %v", r.Params.ProgressToken, r.Params.Progress, r.Params.Total)
		},
	})
	client.AddRoots(&sdk.Root{URI: "file:///root", Name: "r"})
	s := open(client)
	times := regexp.MustCompile(`\d{1,2}:\d\d:\d\d [AP]M`)
	say := func(what string, value any, err error) {
		t.Helper()
		text, failed := json.Marshal(value)
		if failed != nil {
			t.Error(failed)
		}
		lines = append(lines, times.ReplaceAllString(fmt.Sprintf("%s: %s %v", what, text, err), "now"))
	}
	say("initialize", s.InitializeResult(), nil)
	within(t, "all tools are there", func() bool {
		tools, err := s.ListTools(ctx, nil)
		last := "trigger-sampling-request" // it is for agents that can do that
		if s.InitializeResult().ProtocolVersion == latestVersion {
			last = "echo"
		}
		return err == nil && slices.ContainsFunc(tools.Tools, func(tool *sdk.Tool) bool { return tool.Name == last })
	})
	tools, err := s.ListTools(ctx, nil)
	must.Do(t, err)
	for _, tool := range tools.Tools {
		say("tool "+tool.Name, tool, nil)
	}
	for _, call := range []struct {
		name      string
		arguments any
	}{
		{"echo", map[string]any{"message": "hé"}},
		{"get-sum", map[string]any{"a": 1, "b": 2.5}},
		{"get-sum", map[string]any{"a": "one"}},
		{"get-tiny-image", nil},
		{"get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}},
		{"get-resource-links", map[string]any{"count": 3}},
		{"get-resource-reference", map[string]any{"resourceType": "Text", "resourceId": 1}},
		{"get-structured-content", map[string]any{"location": "Chicago"}},
		{"trigger-sampling-request", map[string]any{"prompt": "hello", "maxTokens": 7}},
		{"trigger-elicitation-request", nil},
		{"get-roots-list", nil},
		{"none", nil},
	} {
		r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: call.name, Arguments: call.arguments})
		say(call.name, r, err)
	}
	long := &sdk.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 0.1, "steps": 2}}
	long.SetProgressToken("token")
	r, err := s.CallTool(ctx, long)
	say("long", r, err)
	for range 2 {
		select {
		case step := <-progress:
			say("progress", step, nil)
		case <-ctx.Done():
			t.Error("no progress")
		}
	}
	hanging, stop := context.WithCancel(ctx)
	time.AfterFunc(100*time.Millisecond, stop)
	_, err = s.CallTool(hanging, &sdk.CallToolParams{
		Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 30, "steps": 1},
	})
	say("cancelled", nil, err)
	prompts, err := s.ListPrompts(ctx, nil)
	say("prompts", prompts, err)
	prompt, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "args-prompt", Arguments: map[string]string{"city": "Rome"}})
	say("prompt", prompt, err)
	prompt, err = s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "none"})
	say("no prompt", prompt, err)
	resources, err := s.ListResources(ctx, nil)
	say("resources", resources, err)
	templates, err := s.ListResourceTemplates(ctx, nil)
	say("templates", templates, err)
	read, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "demo://resource/dynamic/text/1"})
	say("read", read, err)
	read, err = s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "demo://none"})
	say("no resource", read, err)
	completed, err := s.Complete(ctx, &sdk.CompleteParams{
		Ref:      &sdk.CompleteReference{Type: "ref/prompt", Name: "completable-prompt"},
		Argument: sdk.CompleteParamsArgument{Name: "department", Value: "S"},
	})
	say("completed", completed, err)
	say("subscribed", nil, s.Subscribe(ctx, &sdk.SubscribeParams{URI: "demo://resource/dynamic/text/1"}))
	say("level", nil, s.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "debug"}))
	say("ping", nil, s.Ping(ctx, nil))
	return lines
}
