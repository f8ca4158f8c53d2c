package pay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

type object = map[string]any

// casesFile is the guards' table as data (docs/clients/conformance.md).
type casesFile struct {
	APIKey     string          `json:"api_key"`
	Action     json.RawMessage `json:"action"`
	PaymentKey string          `json:"payment_key"`
	Answers    map[string]struct {
		Status int    `json:"status"`
		Body   object `json:"body"`
	} `json:"answers"`
	Cases []struct {
		Name  string   `json:"name"`
		Calls []called `json:"calls"`
	} `json:"cases"`
}

type called struct {
	Options struct {
		TakeOver bool   `json:"take_over"`
		Hours    int    `json:"take_over_within_hours"`
		Again    int    `json:"again_after_hours"`
		Replace  bool   `json:"replace"`
		Wait     int    `json:"wait"`
		FailedIf string `json:"failed_if"`
	} `json:"options"`
	With object `json:"with"`
	Body struct {
		Return    string          `json:"return"`
		Raise     string          `json:"raise"`
		Reference json.RawMessage `json:"reference"`
		Amount    string          `json:"amount"`
	} `json:"body"`
	Meanwhile object      `json:"meanwhile"`
	Exchanges []*exchange `json:"exchanges"`
	Ran       *string     `json:"ran"`
	Returns   any         `json:"returns"`
	Raises    object      `json:"raises"`
}

type exchange struct {
	Request string      `json:"request"`
	Answer  string      `json:"answer"`
	Status  int         `json:"status"`
	Text    *string     `json:"text"`
	Change  object      `json:"change"`
	Drop    []string    `json:"drop"`
	Headers [][2]string `json:"headers"`
	Has     object      `json:"has"`
	Send    object      `json:"send"`
	Wait    int         `json:"wait"`
	Cut     *int        `json:"cut"`
	Fail    string      `json:"fail"`
	Takes   int         `json:"takes"`
	Times   any         `json:"times"`
	played  int
}

// player plays the service for a case.
type player struct {
	t      *testing.T
	file   *casesFile
	action object
	left   []*exchange
	nonce  string
}

func (p *player) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var got object
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, err
	}
	if len(p.left) == 0 {
		p.t.Errorf("another request: %s %s", r.URL.Path, body)
		return nil, io.ErrUnexpectedEOF
	}
	e := p.left[0]
	if e.Times == "any" && len(p.left) > 1 && p.left[1].Request != e.Request {
		p.left = p.left[1:]
		e = p.left[0]
	}
	if e.played++; e.Times != "any" && (e.Times == nil || float64(e.played) == e.Times) {
		p.left = p.left[1:]
	}
	p.compare(e, r, got)
	time.Sleep(time.Duration(e.Takes) * time.Second)
	return p.answer(e, r)
}

// compare finds what is wrong with a request.
func (p *player) compare(e *exchange, r *http.Request, got object) {
	want, path := object{}, map[string]string{
		"ask": "/v1/checks", "report": "/v1/checks/chk_1/outcome", "in_doubt": "/v1/checks/chk_1/in-doubt",
	}[e.Request]
	if e.Request == "ask" {
		nonce, _ := got["redeem"].(string)
		if len(nonce) < 16 || len(nonce) > 64 || p.nonce != "" && p.nonce != nonce {
			p.t.Errorf("the nonce %q after %q", nonce, p.nonce)
		}
		p.nonce = nonce
		maps.Copy(want, p.action)
		maps.Copy(want, e.Has)
		want["redeem"] = nonce
		prefer := ""
		if e.Wait > 0 {
			prefer = "wait=" + string(rune('0'+e.Wait/10)) + string(rune('0'+e.Wait%10))
		}
		if r.Header.Get("Prefer") != prefer {
			p.t.Errorf("Prefer: %q, want %q", r.Header.Get("Prefer"), prefer)
		}
	} else {
		want = maps.Clone(e.Send)
		if want["status"] == 403.0 { // of the answer
			want["status"], want["reference"], e.Status = "executed", "psp-1", http.StatusForbidden
		}
		delete(got, "note")
	}
	for _, o := range []object{got, want} { // the other languages send text
		if text := strings.Trim(encode(p.t, o["amount"]), `"`); text != "null" {
			o["amount"] = amountOf(p.t, text).String()
		}
	}
	if a, b := encode(p.t, got), encode(p.t, want); r.URL.Path != path || a != b {
		p.t.Errorf("got %s %s\nwant %s %s", r.URL.Path, a, path, b)
	}
}

func amountOf(t *testing.T, text string) client.Amount {
	t.Helper()
	return must.Get(client.ParseAmount(text))(t)
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}

// answer makes the answer of an exchange.
func (p *player) answer(e *exchange, r *http.Request) (*http.Response, error) {
	switch e.Fail {
	case "hang_up":
		return nil, io.ErrUnexpectedEOF
	case "stall":
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	status := e.Status
	var text string
	if e.Text != nil {
		text = *e.Text
	} else {
		a := p.file.Answers[e.Answer]
		if status == 0 {
			status = a.Status
		}
		var body object
		if err := json.Unmarshal([]byte(encode(p.t, a.Body)), &body); err != nil {
			return nil, err
		}
		change(body, e.Change)
		for _, path := range e.Drop {
			within, name := body, path
			if outer, inner, ok := strings.Cut(path, "."); ok {
				within, name = body[outer].(object), inner
			}
			delete(within, name)
		}
		if amount, ok := body["amount"].(string); ok {
			body["amount"] = amountOf(p.t, amount)
		}
		if latest, ok := body["error"].(object); ok {
			if latest, ok = latest["latest"].(object); ok && latest["status"] == "executed" {
				latest["amount"] = 42.5
			}
		}
		text = encode(p.t, body)
	}
	if status == 0 {
		status = http.StatusOK
	}
	nonce := p.nonce
	text = strings.ReplaceAll(text, "$nonce", nonce)
	response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}
	for _, h := range e.Headers {
		response.Header.Add(h[0], h[1])
	}
	if e.Cut != nil {
		n := *e.Cut
		if n < 0 {
			n += len(text)
		}
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader(text[:n]), broken{}))
	}
	return response, nil
}

// broken is a body that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func change(body, by object) {
	for name, value := range by {
		inner, isObject := value.(object)
		if known, ok := body[name].(object); ok && isObject {
			change(known, inner)
			continue
		}
		body[name] = value
	}
}

// TestCases plays the guards' shared cases.
func TestCases(t *testing.T) {
	text := must.Get(os.ReadFile("../../../deploy/clients/guard-cases.json"))(t)
	file := new(casesFile)
	must.Do(t, json.Unmarshal(text, file))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &player{t: t, file: file}
				api, err := client.New(client.Options{BaseURL: "http://127.0.0.1:1", APIKey: file.APIKey, HTTPClient: &http.Client{Transport: p}})
				if err != nil {
					t.Fatal(err)
				}
				g := New(Options{Client: api})
				for _, call := range c.Calls {
					if call.Meanwhile != nil || len(call.Body.Reference) > 0 && call.Body.Reference[0] != '"' {
						t.Skip("the action and a reference of this guard are values of their types")
					}
					p.play(g, call)
				}
			})
		})
	}
}

// play makes a call and compares how it ends.
func (p *player) play(g *Guard, c called) {
	p.nonce, p.left, p.action = "", c.Exchanges, object{}
	must.Do(p.t, json.Unmarshal(p.file.Action, &p.action))
	p.action["payment_key"] = p.file.PaymentKey
	maps.Copy(p.action, c.With)
	var a client.Action
	p.action["amount"] = amountOf(p.t, p.action["amount"].(string))
	must.Do(p.t, json.NewDecoder(bytes.NewReader([]byte(encode(p.t, p.action)))).Decode(&a))
	o := c.Options
	a.AgainAfterHours, a.Replace, a.TakeOverWithinHours = o.Again, o.Replace, o.Hours
	ran := ""
	r := g.Run(p.t.Context(), Payment{Action: a, Wait: time.Duration(o.Wait) * time.Second, TakeOver: o.TakeOver},
		func(_ context.Context, permit Permit) End {
			if ran != "" {
				p.t.Error("ran twice")
			}
			ran = permit.ExecutionID
			return c.end(p.t)
		})
	g.Wait()
	for _, e := range p.left {
		if e.Times != "any" || e.played == 0 {
			p.t.Errorf("not asked for: %+v", e)
		}
	}
	if c.Ran == nil != (ran == "") || c.Ran != nil && *c.Ran != ran {
		p.t.Errorf("ran with %q", ran)
	}
	p.ended(c, r)
}

// end is how the body of a call ends.
func (c *called) end(t *testing.T) End {
	reference := "psp-1"
	if c.Body.Return != "" {
		reference = c.Body.Return
	}
	if c.Body.Reference != nil {
		must.Do(t, json.Unmarshal(c.Body.Reference, &reference))
		reference = strings.ReplaceAll(reference, "\uFFFD", "\xed\xa0\x80") // half of a surrogate pair
	}
	told := c.Options.FailedIf
	switch {
	case c.Body.Raise == "declined" && told == "error", c.Body.Return == "declined" && told == "result":
		return End{Outcome: Declined}
	case c.Body.Raise != "", told != "result" && LooksFailed(c.Body.Return):
		return End{}
	}
	end := End{Outcome: Executed, Reference: reference}
	if c.Body.Amount != "" {
		end.Amount = new(amountOf(t, c.Body.Amount))
	}
	return end
}

// ended compares the end of a call with the case's.
func (p *player) ended(c called, r Result) {
	kinds := map[State]string{
		Unanswered: "unanswered", Blocked: "blocked", Denied: "denied", Stopped: "escalated", Expired: "expired", Pending: "pending",
		InDoubt: "in_doubt", Rejected: "declined", Error: "api_error",
	}
	kind := kinds[r.State]
	refused, isRefusal := errors.AsType[*client.Error](r.Err)
	switch {
	case isRefusal && refused.Code == client.CodePaymentDiffers:
		kind = "differs"
	case r.State == Error && !isRefusal:
		kind = "bad_key"
	}
	if c.Raises == nil {
		want, _ := c.Returns.(string)
		if want != "declined" && (r.State != Ran && r.State != Already || r.State == Already && r.Reference != want) {
			p.t.Errorf("ended as %q: %+v", kind, r)
		}
		return
	}
	got := object{"kind": kind, "in_progress": r.InProgress}
	if r.Check != nil {
		got["check_id"], got["reason_code"], got["next_step"] = r.Check.CheckID, r.Check.ReasonCode, r.Check.NextStep
		got["approval_id"] = r.Check.ApprovalID
	}
	if isRefusal {
		got["status"], got["code"], got["differs"] = refused.Status, refused.Code, refused.Differs
		if refused.CheckID != "" {
			got["check_id"] = refused.CheckID
		}
	}
	for name, want := range c.Raises {
		if encode(p.t, got[name]) != encode(p.t, want) {
			p.t.Errorf("%s is %v, want %v (%v)", name, got[name], want, r.Err)
		}
	}
}
