package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
)

// features is a server that uses all of the protocol, and speaks one version of it.
func features(version string) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "features", Version: "7"}, &sdk.ServerOptions{
		Instructions: "features' own instructions", PageSize: 3, SupportedProtocolVersions: []string{version},
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "-completed"}}}, nil
		},
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	schema := map[string]any{"type": "object"}
	add := func(name string, handler func(context.Context, *sdk.CallToolRequest) (string, error)) {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: schema, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
			func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				text, err := handler(ctx, r)
				if err != nil {
					return nil, err
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
			})
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (string, error) {
		return string(r.Params.Arguments), nil
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i), Message: "step",
			})
			if err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	add("sample", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		answer, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 7})
		if err != nil {
			return "", err
		}
		return answer.Model, nil
	})
	add("elicit", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?", RequestedSchema: sure()})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(answer.Action, answer.Content["sure"]), nil
	})
	add("roots", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		answer, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		return answer.Roots[0].URI, nil
	})
	add("log", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		return "logged", r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Data: "a word"})
	})
	server.AddTool(&sdk.Tool{Name: "confirm", InputSchema: schema, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			answer, asked := r.Params.InputResponses["sure"].(*sdk.ElicitResult)
			if !asked {
				ask := &sdk.ElicitParams{Message: "sure?", RequestedSchema: sure()}
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"sure": ask}}, nil
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(answer.Action, answer.Content["sure"])}}}, nil
		})
	var cancelled atomic.Value // "hangs" while a call does
	cancelled.Store("false")
	add("hang", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		cancelled.Store("hangs")
		select {
		case <-ctx.Done():
			cancelled.Store("true")
			return "", ctx.Err()
		case <-time.After(time.Minute):
			return "", errors.New("was not cancelled")
		}
	})
	add("was_cancelled", func(context.Context, *sdk.CallToolRequest) (string, error) { return cancelled.Load().(string), nil })
	add("change", func(context.Context, *sdk.CallToolRequest) (string, error) {
		server.AddPrompt(&sdk.Prompt{Name: "later"}, nil)
		server.AddResource(&sdk.Resource{Name: "later", URI: "file:///later"}, nil)
		return "changed", server.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{URI: "file:///a"})
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (string, error) { return "", errors.New("no luck") })
	add("die", func(context.Context, *sdk.CallToolRequest) (string, error) { panic("dies") })
	server.AddPrompt(&sdk.Prompt{Name: "greet"}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Description: "hello " + r.Params.Arguments["who"]}, nil
	})
	server.AddResource(&sdk.Resource{Name: "a", URI: "file:///a"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "content"}}}, nil
		})
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "t", URITemplate: "file:///t/{x}"}, nil)
	return server
}

func sure() map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{"sure": map[string]any{"type": "boolean"}}}
}

// heard is what a client was told.
type heard struct {
	progress, logs, prompts, resources, updates, tools atomic.Int32
}

func featuresClient(h *heard) *sdk.Client {
	client := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(_ context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{
				Model: fmt.Sprint("model-", r.Params.MaxTokens), Role: "assistant", Content: &sdk.TextContent{Text: "x"},
			}, nil
		},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"sure": true}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { h.progress.Add(1) },
		LoggingMessageHandler:       func(context.Context, *sdk.LoggingMessageRequest) { h.logs.Add(1) },
		PromptListChangedHandler:    func(context.Context, *sdk.PromptListChangedRequest) { h.prompts.Add(1) },
		ResourceListChangedHandler:  func(context.Context, *sdk.ResourceListChangedRequest) { h.resources.Add(1) },
		ResourceUpdatedHandler:      func(context.Context, *sdk.ResourceUpdatedNotificationRequest) { h.updates.Add(1) },
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { h.tools.Add(1) },
	})
	client.AddRoots(&sdk.Root{URI: "file:///root"})
	return client
}

// TestFeatures: everything that is not mapped is passed on, in both eras of the protocol on both sides. What one era does not have is
// translated or refused.
func TestFeatures(t *testing.T) {
	for _, version := range []string{legacyVersion, latestVersion} {
		remote := streamable(t, func() *sdk.Server { return features(version) }, version)
		for name, upstream := range map[string]string{"child": ownChild(t, "features", version), "remote": "url: " + remote} {
			for _, e := range eras() {
				t.Run(version+"/"+name+"/"+e.version+"/"+e.transport, func(t *testing.T) {
					t.Parallel()
					if name == "remote" && version == latestVersion {
						t.Skip("its server is another one for each request")
					}
					listen := ""
					if e.transport == "http" {
						listen = "listen: 127.0.0.1:0\n"
					}
					g := load(t, "agent_id: a\nshadow: true\n"+listen+"upstreams:\n  one:\n    "+upstream)
					h := new(heard)
					testFeatures(t, e.reach(t, g, featuresClient(h)), h, e.version, version)
				})
			}
		}
	}
}

func testFeatures(t *testing.T, s *sdk.ClientSession, h *heard, agent, server string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if s.InitializeResult().ProtocolVersion != agent || !strings.Contains(s.InitializeResult().Instructions, "features' own instructions") ||
		s.InitializeResult().ServerInfo.Name != "features" {
		t.Errorf("%+v", s.InitializeResult())
	}
	call := func(name string, arguments any, token any) string {
		t.Helper()
		params := &sdk.CallToolParams{Name: name, Arguments: arguments}
		if token != nil {
			params.SetProgressToken(token)
		}
		r, err := s.CallTool(ctx, params)
		if err != nil {
			return "error: " + err.Error()
		}
		return textIn(r)
	}
	want := map[string]string{"sample": "model-7", "elicit": "accepttrue", "roots": "file:///root", "confirm": "accepttrue"}
	switch {
	case agent == latestVersion && server == legacyVersion: // the agent cannot be asked while it waits for an answer
		want = map[string]string{"sample": "error", "elicit": "error", "confirm": "error"}
	case server == latestVersion: // the server asks in its answers only
		want = map[string]string{"confirm": "accepttrue"}
	}
	for name, want := range want {
		if got := call(name, nil, nil); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "fail"}); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Error(err)
	}
	if got := call("echo", map[string]any{"x": []any{1, "é"}}, nil); got != `{"x":[1,"é"]}` {
		t.Error(got)
	}
	if got := call("progress", nil, "token-1"); got != "done" {
		t.Error(got)
	}
	within(t, "progress", func() bool { return h.progress.Load() == 3 })
	if agent == legacyVersion && server == legacyVersion {
		must.Check(t, s.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "info"}))
		call("log", nil, nil)
		within(t, "log", func() bool { return h.logs.Load() == 1 })
	}
	hanging, stop := context.WithCancel(ctx)
	go func() {
		within(t, "the server is called", func() bool { return call("was_cancelled", nil, nil) == "hangs" })
		stop()
	}()
	if _, err := s.CallTool(hanging, &sdk.CallToolParams{Name: "hang"}); err == nil {
		t.Error("was not cancelled")
	}
	within(t, "the server's call is cancelled", func() bool { return call("was_cancelled", nil, nil) == "true" })
	testLists(ctx, t, s)
	must.Check(t, s.Subscribe(ctx, &sdk.SubscribeParams{URI: "file:///a"}))
	time.Sleep(100 * time.Millisecond) // in the era without sessions a subscription is not answered
	call("change", nil, nil)
	within(t, "changed lists", func() bool { return h.prompts.Load() > 0 && h.resources.Load() > 0 && h.updates.Load() > 0 })
}

// TestLateProgress: progress is passed on before the answer that it belongs to, also to an agent that reads slowly.
func TestLateProgress(t *testing.T) {
	remote := streamable(t, func() *sdk.Server { return features(legacyVersion) }, legacyVersion)
	for name, upstream := range map[string]string{"child": ownChild(t, "features", legacyVersion), "remote": "url: " + remote} {
		h := new(heard)
		a := era{legacyVersion, "slow"}.reach(t, load(t, "agent_id: a\nshadow: true\nupstreams:\n  one:\n    "+upstream), featuresClient(h))
		params := &sdk.CallToolParams{Name: "progress"}
		params.SetProgressToken("x")
		must.Get(a.CallTool(t.Context(), params))(t)
		if within(t, name, func() bool { return h.progress.Load() == 3 }); t.Failed() {
			t.Error(h.progress.Load())
		}
	}
}

func testLists(ctx context.Context, t *testing.T, s *sdk.ClientSession) {
	var tools []string
	for tool, err := range s.Tools(ctx, nil) {
		must.Do(t, err)
		tools = append(tools, tool.Name)
	}
	const count = 12
	if !slices.Contains(tools, "echo") || len(tools) != count {
		t.Error(tools)
	}
	prompt, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "greet", Arguments: map[string]string{"who": "you"}})
	if err != nil || prompt.Description != "hello you" {
		t.Error(prompt, err)
	}
	for resource, err := range s.Resources(ctx, nil) {
		if err != nil || resource.URI != "file:///a" {
			t.Error(resource, err)
		}
	}
	for template, err := range s.ResourceTemplates(ctx, nil) {
		if err != nil || template.Name != "t" {
			t.Error(template, err)
		}
	}
	read, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "file:///a"})
	if err != nil || read.Contents[0].Text != "content" {
		t.Error(read, err)
	}
	if _, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "file:///none"}); err == nil {
		t.Error("a resource that is not there was read")
	}
	completed, err := s.Complete(ctx, &sdk.CompleteParams{
		Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "greet"}, Argument: sdk.CompleteParamsArgument{Name: "who", Value: "y"},
	})
	if err != nil || completed.Completion.Values[0] != "y-completed" {
		t.Error(completed, err)
	}
}

// TestSharedSubscriptions: agents that share a connection to a server have one subscription there, which ends with the last of
// them. One that begins while it ends counts.
func TestSharedSubscriptions(t *testing.T) {
	const uri, subscribe, unsubscribe = "file:///a", "resources/subscribe", "resources/unsubscribe"
	s, p := newPlain(t)
	var ending atomic.Pointer[func()]
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if r.Body = io.NopCloser(strings.NewReader(string(text))); err == nil && strings.Contains(string(text), unsubscribe) {
			if do := ending.Load(); do != nil {
				(*do)()
			}
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p.url = front.URL
	address := served(t, guarded(t, newService(t), p, "listen: 127.0.0.1:0\n", "")) + Path
	agent := func() *sdk.ClientSession { return agentWith(t, address, "", latestVersion) }
	asked := func(want ...string) {
		t.Helper()
		within(t, fmt.Sprint(want), func() (so bool) { s.with(func() { so = slices.Equal(s.calls, want) }); return so })
	}
	one, two, three := agent(), agent(), agent()
	begin := func(a *sdk.ClientSession) {
		must.Check(t, a.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}))
	}
	begin(one)
	asked(subscribe)
	begin(two)
	asked(subscribe, subscribe)
	must.Check(t, one.Close())
	time.Sleep(100 * time.Millisecond)
	asked(subscribe, subscribe)
	ending.Store(new(func() {
		begin(three)
		asked(subscribe, subscribe, subscribe)
	}))
	must.Check(t, two.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: uri}))
	asked(subscribe, subscribe, subscribe, unsubscribe, subscribe)
	ending.Store(nil)
	must.Check(t, three.Close())
	asked(subscribe, subscribe, subscribe, unsubscribe, subscribe, unsubscribe)
}
