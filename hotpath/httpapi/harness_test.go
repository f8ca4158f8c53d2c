package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/httpapi/apitest"
	"spendgate/hotpath/policy"
	"spendgate/ratelimit"
)

const (
	goodKey  = "svc_live_0123456789abcdef0123456789abcdef"
	adminKey = "admin-secret"
)

// fake is an Authorizer that knows one key and allows everything, unless a
// test says otherwise. It remembers what it was asked.
type fake struct {
	mu       sync.Mutex
	admits   int
	checked  []*spend.Action
	requests []hotpath.Request // of those that were checked
	demo     []hotpath.Caller
	keys     int
	by       []audit.Actor // of changes
	drop     []string      // of the last policy
	budgets  []hotpath.BudgetQuery
	counters []hotpath.BudgetCounter

	admitErr error // of Admit, Check and Simulate, once the caller is known
	workErr  error // of what comes after admission
	replayed bool
	first    string // request of the check that is replayed
	quota    ratelimit.Quota
	hold     chan struct{} // Check waits for it when it is not nil
	panics   bool
}

func newFake() *fake {
	return &fake{quota: ratelimit.Quota{Limit: 100, Remaining: 99, ResetMS: time.Now().Add(30 * time.Second).UnixMilli()}}
}

func (f *fake) admit(c hotpath.Caller) (ratelimit.Quota, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admits++
	switch c {
	case hotpath.KeyCaller([]byte(goodKey)):
		return f.quota, f.admitErr
	case hotpath.KeyCaller(nil), hotpath.KeyCaller([]byte("wrong")), hotpath.KeyCaller([]byte("svc_live_wrong")):
		return ratelimit.Quota{}, hotpath.ErrUnauthorized
	}
	f.demo = append(f.demo, c)
	return ratelimit.Quota{Limit: 10, Remaining: 9, ResetMS: f.quota.ResetMS}, f.admitErr
}

func (f *fake) Knows(c hotpath.Caller) bool { return c == hotpath.KeyCaller([]byte(goodKey)) }

func (f *fake) KeyID(c hotpath.Caller) string {
	if f.Knows(c) {
		return "key_known"
	}
	return ""
}

func (f *fake) Admit(_ context.Context, c hotpath.Caller, _ spend.Scopes, _ bool) (hotpath.Access, ratelimit.Quota, error) {
	q, err := f.admit(c)
	return hotpath.AccessOf(&audit.Key{Hash: spend.HashKey("good")}), q, err
}

func (f *fake) Check(_ context.Context, r hotpath.Request, action *spend.Action) (hotpath.Answer, ratelimit.Quota, error) {
	q, err := f.admit(r.Caller)
	if err != nil {
		return hotpath.Answer{}, q, err
	}
	if f.panics {
		panic("a bug with a secret " + goodKey[:4])
	}
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := allowedCheck()
	c.RequestID = f.first
	c.Action = *action // which is the caller's again afterwards
	f.checked, f.requests = append(f.checked, &c.Action), append(f.requests, r)
	return hotpath.Answer{Check: c, Replayed: f.replayed}, q, f.workErr
}

func (f *fake) Authenticate(_ context.Context, c hotpath.Caller) (ratelimit.Quota, error) {
	if c != hotpath.KeyCaller([]byte(goodKey)) {
		return ratelimit.Quota{}, hotpath.ErrUnauthorized
	}
	return ratelimit.Quota{}, nil
}

func (f *fake) Simulate(_ context.Context, _ hotpath.Request, _ string, actions []*spend.Action) ([]*spend.Check, int, error) {
	checks := make([]*spend.Check, len(actions))
	for i := range actions {
		checks[i] = blockedCheck()
	}
	return checks, 3, f.workErr
}

func (f *fake) TryRules(
	ctx context.Context, r hotpath.Request, policyID, _ string, actions []*spend.Action, faults spend.Faults,
) ([]*spend.Check, int, error) {
	if err := faults.Err(); err != nil {
		return nil, 0, err
	}
	return f.Simulate(ctx, r, policyID, actions)
}

func (f *fake) AwaitApproval(context.Context, hotpath.Access, spend.ID, time.Duration, <-chan struct{}) (*audit.Approval, bool, error) {
	return nil, false, hotpath.ErrApprovalNotFound
}

func (f *fake) DecideApproval(context.Context, hotpath.Access, audit.Actor, audit.DecisionRequest) (*audit.Approval, bool, error) {
	return nil, false, hotpath.ErrApprovalNotFound
}

func (f *fake) ApprovalsWaitingFor(context.Context, hotpath.Access, audit.ApprovalQuery) ([]*audit.Approval, spend.ID, bool, error) {
	return nil, spend.ID{}, false, nil
}

func (f *fake) BudgetsLeft(context.Context, *audit.Approval) ([]hotpath.BudgetLeft, error) {
	return nil, nil
}

func (f *fake) Report(_ context.Context, _ hotpath.Request, check *spend.Check, report hotpath.Report) (*spend.Outcome, bool, error) {
	return &spend.Outcome{CheckID: check.ID, Status: report.Status, Release: spend.ReleaseNone, KeyID: "key_0"}, f.replayed, f.workErr
}

func (f *fake) Untouched(context.Context, spend.ID) (*spend.Check, error) { return nil, nil }

func (f *fake) Redeem(
	_ context.Context, _ hotpath.Request, check *spend.Check, _ bool, _ hotpath.Redemption,
) (*spend.Outcome, bool, error) {
	return &spend.Outcome{ID: testID(instant), CheckID: check.ID, Status: spend.Redeemed, KeyID: "key_0"}, f.replayed, f.workErr
}

func (f *fake) Doubt(_ context.Context, _ hotpath.Request, check *spend.Check, _ string) (spend.Course, bool, error) {
	step := &spend.Outcome{ID: testID(instant), CheckID: check.ID, KeyID: "key_0"}
	return spend.Course{Redeemed: step, Doubt: step}, f.replayed, f.workErr
}

func (f *fake) AwaitEvents(_ context.Context, _ hotpath.Access, q audit.EventQuery, _ time.Duration, _ <-chan struct{}) (
	audit.EventPage, bool, error,
) {
	return audit.EventPage{Next: q.After}, true, f.workErr
}

func (f *fake) EventsFrom(context.Context, time.Time) (int64, error) { return 41, f.workErr }

func (f *fake) Budgets(_ context.Context, _ hotpath.Access, q hotpath.BudgetQuery) ([]hotpath.BudgetCounter, bool, time.Time, error) {
	f.budgets = append(f.budgets, q)
	return f.counters, len(f.counters) > 1, time.UnixMilli(1_700_000_000_000), f.workErr
}

func (f *fake) CreatePolicy(
	_ context.Context, _ hotpath.Access, by audit.Actor, p *audit.Policy, drop []string, faults spend.Faults,
) error {
	f.by, f.drop = append(f.by, by), drop
	if policy.Compile(p.PolicyID, 1, p.Rules, &faults); faults != nil {
		return faults
	}
	p.Version, p.CreatedAt, p.UpdatedAt = 1, time.UnixMilli(instant), time.UnixMilli(instant)
	return f.workErr
}

func (f *fake) PutDraft(_ context.Context, _ hotpath.Access, by audit.Actor, d *audit.Draft, faults spend.Faults) error {
	f.by = append(f.by, by)
	d.MadeAt = time.UnixMilli(instant)
	return errors.Join(faults.Err(), f.workErr)
}

func (f *fake) Review(context.Context, string) (*audit.Review, error) {
	return nil, hotpath.ErrDraftNotFound
}

func (f *fake) ApproveDraft(context.Context, hotpath.Access, audit.DraftApprovalRequest) (*audit.Review, bool, error) {
	return nil, false, hotpath.ErrDraftNotFound
}

func (f *fake) DeleteDraft(context.Context, hotpath.Access, audit.Actor, string) error {
	return f.workErr
}

func (f *fake) PromoteDraft(context.Context, hotpath.Access, audit.Actor, hotpath.Promotion) (*audit.Policy, error) {
	return nil, hotpath.ErrDraftNotFound
}

func (f *fake) DraftReport(context.Context, string) (*hotpath.DraftReport, error) {
	return nil, hotpath.ErrDraftNotFound
}

func (f *fake) CreateBacktest(context.Context, hotpath.Access, *audit.Backtest, spend.Faults) error {
	return f.workErr
}

func (f *fake) CancelBacktest(context.Context, spend.ID) (*audit.Backtest, error) {
	return new(audit.Backtest), f.workErr
}

func (f *fake) CreateKey(_ context.Context, by audit.Actor, n hotpath.NewKey) (string, *audit.Key, error) {
	f.by = append(f.by, by)
	f.keys++
	return goodKey, &audit.Key{
		ID: testID(instant), Name: n.Name, RateLimitRPM: n.RateLimitRPM, Active: true, CreatedAt: time.UnixMilli(instant), Grants: n.Grants,
	}, f.workErr
}

func (f *fake) UpdateKey(_ context.Context, by audit.Actor, id spend.ID, c audit.KeyChange) (*audit.Key, error) {
	f.by = append(f.by, by)
	k := &audit.Key{ID: id, Name: "n", RateLimitRPM: 100, Active: true, CreatedAt: time.UnixMilli(instant)}
	if c.Active != nil {
		k.Active = *c.Active
	}
	k.Grants = c.Grants.Grants
	return k, f.workErr
}

const fakeRules = `[{"rule_id":"r","rule_type":"max_amount","parameters":{"limit":5}}]`

// fakeStore knows one of each.
type fakeStore struct {
	audit.Store
	violations []audit.Violation
	queried    audit.ViolationQuery
	listed     []*spend.Check
	checks     audit.CheckQuery
	policies   audit.PolicyQuery
	versions   audit.VersionQuery
	err        error
}

func (s *fakeStore) Checks(_ context.Context, ids []spend.ID) ([]*spend.Check, error) {
	if c := blockedCheck(); s.err == nil && ids[0] == c.ID {
		return []*spend.Check{c}, nil
	}
	return nil, s.err
}

func (s *fakeStore) Policy(_ context.Context, id string, version int) (*audit.Policy, error) {
	if s.err != nil {
		return nil, s.err
	}
	if id != "p:1" || version > 2 {
		return nil, audit.ErrNotFound
	}
	return &audit.Policy{PolicyID: id, Name: "n", Version: 2, Rules: fakeRules}, nil
}

func (s *fakeStore) Violations(_ context.Context, q audit.ViolationQuery) (audit.ViolationPage, error) {
	s.queried = q
	return audit.ViolationPage{Violations: s.violations, More: len(s.violations) > 0, Total: 7}, s.err
}

func (s *fakeStore) Outcomes(context.Context, []spend.ID) ([]*spend.Outcome, error) { return nil, nil }

func (s *fakeStore) ListChecks(_ context.Context, q audit.CheckQuery) (audit.CheckPage, error) {
	s.checks = q
	return audit.CheckPage{Checks: s.listed, More: true, Next: testID(instant)}, s.err
}

func (s *fakeStore) ListPolicies(_ context.Context, q audit.PolicyQuery) (audit.PolicyPage, error) {
	s.policies = q
	return audit.PolicyPage{
		Policies: []audit.Policy{{PolicyID: "p:1", Name: "n", Version: 2, Rules: fakeRules}}, More: q.After == "", Total: 2,
	}, s.err
}

func (s *fakeStore) PolicyVersions(_ context.Context, q audit.VersionQuery) (audit.PolicyPage, error) {
	if s.err == nil && q.PolicyID != "p:1" {
		return audit.PolicyPage{}, audit.ErrNotFound
	}
	s.versions = q
	return audit.PolicyPage{
		Policies: []audit.Policy{{PolicyID: "p:1", Name: "n", Version: 7, Rules: fakeRules}}, More: q.Before == 0, Total: 7,
	}, s.err
}

func (s *fakeStore) ListKeys(context.Context, spend.ID, int) (audit.KeyPage, error) {
	used := audit.Key{ID: testID(instant), Name: "n", RateLimitRPM: 5, LastUsedAt: time.UnixMilli(instant)}
	return audit.KeyPage{Keys: []audit.Key{used, {ID: testID(instant - 1), Name: "never used", RateLimitRPM: 5}}, Total: 2}, s.err
}

// served is an API on a port of its own.
type served struct {
	t       *testing.T
	api     *API
	fake    *fake
	store   *fakeStore
	address string
	logged  *lockedBuffer
	metrics *prometheus.Registry
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start serves an API over fakes; change may alter its options.
func start(t *testing.T, change func(*Options)) *served {
	t.Helper()
	s := &served{t: t, fake: newFake(), store: new(fakeStore), logged: new(lockedBuffer), metrics: prometheus.NewRegistry()}
	o := Options{
		Authorizer: s.fake, Store: s.store, AdminKeys: []string{adminKey, "second"}, Version: "1.2.3",
		Logger:     slog.New(slog.NewTextHandler(s.logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: s.metrics,
	}
	if change != nil {
		change(&o)
	}
	s.api = New(o)
	s.address = serveOn(t, s.api)
	return s
}

func serveOn(t *testing.T, a *API) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Serve(l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := a.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request with the good key; headers are "Name: value", a value of
// "-" takes the header away.
func (s *served) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	return doAt(s.t, s.address, method, path, body, headers...)
}

// doAt sends a request to the API and holds the answer to its document.
func doAt(t *testing.T, address, method, path, body string, headers ...string) answer {
	t.Helper()
	a := sendAt(t, address, method, path, body, headers...)
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.CheckResponse(method, path, apitest.Response{Status: a.status, Header: a.header, Body: []byte(a.body)}); err != nil {
		t.Error(err)
	}
	return a
}

func sendAt(t *testing.T, address, method, path, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", goodKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if value == "-" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// document is openapi.yaml, to which every answer that doAt gets is held.
var document = sync.OnceValues(func() (*apitest.Document, error) { return apitest.Load(openAPI) })

// code is the error code of an answer, after a look at its shape.
func (a answer) code(t *testing.T) string {
	t.Helper()
	var e struct {
		Error struct {
			Code, Message, Timestamp string
			RequestID                string `json:"request_id"`
		}
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	if e.Error.Message == "" || e.Error.RequestID != a.header.Get("X-Request-ID") || e.Error.Timestamp == "" {
		t.Errorf("error shape: %s with %v", a.body, a.header)
	}
	return e.Error.Code
}

func (f *fake) CreateWebhook(context.Context, audit.Actor, audit.WebhookChange) (*audit.Webhook, audit.Secret, error) {
	return nil, "", f.workErr
}

func (f *fake) UpdateWebhook(context.Context, audit.Actor, spend.ID, audit.WebhookChange) (*audit.Webhook, error) {
	return nil, f.workErr
}

func (f *fake) RotateWebhook(context.Context, audit.Actor, spend.ID) (*audit.Webhook, audit.Secret, error) {
	return nil, "", f.workErr
}

func (f *fake) DeleteWebhook(context.Context, audit.Actor, spend.ID) error { return f.workErr }

func (f *fake) SessionCaller(context.Context, []byte) (hotpath.Caller, error) {
	return hotpath.Caller{}, hotpath.ErrSessionEnded
}

func (f *fake) SignInBegins(context.Context) (time.Time, error) { return time.Now(), f.workErr }

func (f *fake) SignIn(context.Context, audit.Actor, *audit.Session) (string, error) {
	return "", f.workErr
}

func (f *fake) SignOut(context.Context, audit.Actor, hotpath.Caller) error { return f.workErr }

func (f *fake) EndSession(context.Context, audit.Actor, spend.ID) error { return f.workErr }

func (f *fake) EndSessions(context.Context, audit.Actor, *audit.Session) error { return f.workErr }

func (f *fake) TakeOver(context.Context, string) (string, error) { return "", f.workErr }

func (f *fake) EndLoggedOut(context.Context, audit.Actor, audit.Logout) error { return f.workErr }
