package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/sqlite"
	"spendgate/bench/must"
	"spendgate/hotpath"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/guard/embedded"
	"spendgate/hotpath/httpapi/apitest"
	"spendgate/hotpath/policy"
)

// realOptions wires an API as the commands do, on the embedded backends.
func realOptions(t *testing.T, settings ...func(*hotpath.Components)) Options {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store := must.Get(sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "audit.db"), log))(t)
	redis := must.Get(embedded.Start())(t)
	reg := prometheus.NewRegistry()
	g := guard.New(guard.Options{Redis: redis.Options(), Embedded: true, Store: store, Logger: log, Registerer: reg})
	for end := time.Now().Add(10 * time.Second); ; { // as a node's start waits
		if err := g.Ping(t.Context()); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	w := commit.NewWriter(commit.Options{Trail: store, Capacity: 1024, Fence: g.Fence, Retire: g.Retire, Logger: log, Registerer: reg})
	c := hotpath.Components{Guard: g, Writer: w, Store: store, Logger: log, Registerer: reg, Now: time.Now}
	for _, set := range settings {
		set(&c)
	}
	a := hotpath.New(c)
	t.Cleanup(func() {
		a.Close()
		w.Close()
		_ = g.Close()
		redis.Close()
		store.Close()
	})
	return Options{Authorizer: a, Store: store, AdminKeys: []string{adminKey}, Version: "test", Registerer: reg, Logger: log}
}

// The document has a schema for each rule type, with its parameters.
func TestTheDocumentHasEveryRuleType(t *testing.T) {
	schemas := describe(t).doc.Components.Schemas
	mapping := schemas["Rule"].Value.Discriminator.Mapping
	types := policy.RuleTypes()
	if len(mapping) != len(types) || len(schemas["Rule"].Value.OneOf) != len(types) {
		t.Errorf("Rule has %d types, want %d", len(mapping), len(types))
	}
	for _, r := range types {
		one := schemas[path.Base(mapping[r.Name].Ref)]
		if one == nil || one.Value.Properties["rule_type"].Value.Const != r.Name {
			t.Errorf("the schema of rule type %s is %v", r.Name, mapping[r.Name].Ref)
			continue
		}
		var names, required []string
		for _, p := range r.Parameters {
			names = append(names, p.Name)
			if p.Required {
				required = append(required, p.Name)
			}
		}
		slices.Sort(names)
		parameters := one.Value.Properties["parameters"].Value
		if documented := slices.Sorted(maps.Keys(parameters.Properties)); !slices.Equal(documented, names) ||
			!slices.Equal(parameters.Required, required) {
			t.Errorf("%s has the parameters %s, of which %s are required; want %s and %s", r.Name, documented, parameters.Required, names, required)
		}
	}
}

// The document has a schema for each type of events, and the reasons and flags that there are.
func TestTheDocumentHasEveryEventTypeAndReason(t *testing.T) {
	schemas := describe(t).doc.Components.Schemas
	event := schemas["Event"].Value
	if len(event.OneOf) != len(audit.EventTypes()) || len(event.Discriminator.Mapping) != len(audit.EventTypes()) {
		t.Errorf("Event has %d types, want %d", len(event.OneOf), len(audit.EventTypes()))
	}
	var types, reasons []any
	flags := []any{"exceeded", "exceeded_pending", "unapproved"}
	for _, name := range audit.EventTypes() {
		types = append(types, string(name))
		if one := schemas[path.Base(event.Discriminator.Mapping[string(name)].Ref)]; one == nil ||
			one.Value.Properties["type"].Value.Const != string(name) {
			t.Errorf("the schema of %s is %v", name, event.Discriminator.Mapping[string(name)].Ref)
		}
	}
	if documented := schemas["EventType"].Value.Enum; !slices.Equal(documented, types) {
		t.Errorf("EventType is %s, want %s", documented, types)
	}
	source := must.Get(os.ReadFile("../../audit/spend/decision.go"))(t)
	for _, found := range regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "(\w+)"$`).FindAllSubmatch(source, -1) {
		reasons = append(reasons, string(found[1]))
	}
	if documented := schemas["ReasonCode"].Value.Enum; !slices.Equal(documented, reasons) {
		t.Errorf("ReasonCode is %s, want %s", documented, reasons)
	}
	source = must.Get(os.ReadFile("../../audit/spend/payment_text.go"))(t)
	for _, found := range regexp.MustCompile(`\bFlag = "(\w+)"`).FindAllSubmatch(source, -1) {
		flags = append(flags, string(found[1]))
	}
	for _, of := range []string{"Outcome", "OutcomeEvent"} {
		if documented := schemas[of].Value.Properties["flags"].Value.Items.Value.Enum; !slices.Equal(documented, flags) {
			t.Errorf("flags of %s are %s, want %s", of, documented, flags)
		}
	}
	// So has the console, whose filters offer them.
	for file, names := range map[string][]any{"events.js": types, "checks.js": reasons} {
		page := must.Get(os.ReadFile("../console/assets/pages/" + file))(t)
		for _, name := range names {
			if !strings.Contains(string(page), `"`+name.(string)+`"`) {
				t.Errorf("%s of the console does not offer %s", file, name)
			}
		}
	}
}

// The document is plain YAML 1.2, which every parser reads alike, and /openapi.json
// is the same document.
func TestTheDocumentIsPlain(t *testing.T) {
	var document yaml.Node
	must.Do(t, yaml.Unmarshal(openAPI, &document))
	var plain func(n *yaml.Node)
	plain = func(n *yaml.Node) {
		if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || n.ShortTag() == "!!merge" {
			t.Errorf("openapi.yaml:%d has an alias, an anchor, a tag or a merge key", n.Line)
			return
		}
		for _, inside := range n.Content {
			plain(inside)
		}
	}
	plain(&document)
	var fromYAML, fromJSON any
	must.Do(t, errors.Join(document.Decode(&fromYAML), yaml.Unmarshal(openAPIJSON(), &fromJSON)))
	if !json.Valid(openAPIJSON()) || !reflect.DeepEqual(fromYAML, fromJSON) {
		t.Error("openapi.json is not openapi.yaml")
	}
}

// described sends requests, and tells whether they fit the document; doAt holds the
// answers to it.
type described struct {
	t       *testing.T
	address string
	doc     *apitest.Document
	key     string
	done    map[string]bool // "POST /v1/checks 200"
}

func describe(t *testing.T) *described {
	t.Helper()
	doc := must.Get(document())(t)
	return &described{t: t, doc: doc, done: map[string]bool{}}
}

// send holds a request to the document too: it must fit when it is answered well, and
// must not when fits is false.
func (d *described) send(method, path, body string, status int, fits bool, headers ...string) string {
	d.t.Helper()
	a := doAt(d.t, d.address, method, path, body, append([]string{"X-API-Key: " + d.key}, headers...)...)
	if a.status != status {
		d.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	if kind := a.header.Get("Content-Type"); (status == 204) != (kind == "") {
		d.t.Errorf("%s %s: %d of type %q", method, path, status, kind)
	}
	if err := d.doc.CheckRequest(method, path, body); (err == nil) != fits {
		d.t.Errorf("%s %s %s: fits %v: %v", method, path, body, !fits, err)
	}
	route := must.Get(d.doc.Route(method, path))(d.t)
	d.done[method+" "+route+" "+http.StatusText(status)] = true
	return a.body
}

// keysAt returns a function that makes an API key of these members, and returns its header.
func keysAt(t *testing.T, address string) func(members string) string {
	return func(members string) string {
		t.Helper()
		made := doAt(t, address, "POST", "/v1/keys", `{"name":"n","rate_limit_rpm":1000`+members+`}`, "X-Admin-Key: "+adminKey)
		return "X-API-Key: " + field(t, made.body, "api_key")
	}
}

func field(t *testing.T, body string, names ...string) string {
	t.Helper()
	var value any
	must.Do(t, json.Unmarshal([]byte(body), &value))
	for _, name := range names {
		value = value.(map[string]any)[name]
	}
	s, _ := value.(string)
	return s
}

func TestTheDocumentHasEveryRoute(t *testing.T) {
	d := describe(t)
	s := start(t, nil)
	var served, documented []string
	for _, paths := range s.api.router.List() {
		served = append(served, paths...)
	}
	for path := range d.doc.Paths.Map() {
		documented = append(documented, path)
	}
	slices.Sort(served)
	slices.Sort(documented)
	if !slices.Equal(served, documented) {
		t.Errorf("served     %v\ndocumented %v", served, documented)
	}
	for path, item := range d.doc.Paths.Map() {
		want := strings.Split(s.do("TRACE", strings.NewReplacer("{", "", "}", "").Replace(path), "").header.Get("Allow"), ", ")
		var got []string
		for method, operation := range item.Operations() {
			got = append(got, method)
			if method == http.MethodGet && operation.Security != nil && len(*operation.Security) == 0 {
				got = append(got, http.MethodHead) // of which the document says so in one sentence
			}
			for _, status := range []int{400, 411, 413} { // of any request, before it is looked at
				if strings.HasPrefix(path, "/v1/") && operation.Responses.Status(status) == nil {
					t.Errorf("%s %s does not document %d", method, path, status)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: documented %v, served %v", path, got, want)
		}
	}
}
