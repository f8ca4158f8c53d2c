package httpapi

import (
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// webhooks sends every request about webhooks.
func (d *described) webhooks(store audit.Store, admin string) {
	const all = "/v1/webhooks"
	created := d.send("POST", all, `{"url":"https://93.184.215.14/hook","event_types":["approval.requested","key.changed"]}`, 201, true, admin)
	id, secret := field(d.t, created, "webhook_id"), field(d.t, created, "secret")
	shown := strings.Replace(created, `,"secret":"`+secret+`"`, "", 1)
	one := all + "/" + id
	if got := d.send("GET", one, "", 200, true, admin); got != shown || shown == created {
		d.t.Errorf("got %s, want %s", got, shown)
	}
	if got, want := d.send("GET", all, "", 200, true, admin), `{"data":[`+shown+
		`],"pagination":{"next_cursor":null,"has_more":false,"total_count":1}}`; got != want {
		d.t.Errorf("got %s, want %s", got, want)
	}
	d.send("GET", all+"?limit=1", "", 422, true, admin)
	for body, fault := range map[string]string{
		`{}`: "url is required; event_types is required",
		`{"url":"https://93.184.215.14/","event_types":[]}`:                            "event_types must have 1-100 entries",
		`{"url":"https://93.184.215.14/","event_types":["key.changed","key.changed"]}`: "event_types[1] is there twice",
		`{"url":"https://93.184.215.14/","event_types":["key.deleted"]}`: "event_types[0] must be a type of event, " +
			"such as approval.requested",
		`{"url":"https://93.184.215.14/","event_types":["key.changed"],"status":"x"}`: "status is not a known field",
		`{"url":7,"event_types":["key.changed"]}`:                                     "url must be a string",
		`{"url":null,"event_types":["key.changed"]}`:                                  "url must be a string",
		`{"url":"","event_types":["key.changed"]}`: "url must be an absolute URL: https://host/path, " +
			"or http",
		`{"url":"https://93.184.215.14/","event_types":"key.changed","secret":"whsec_"}`: "event_types must be a list of strings; " +
			"secret is not a known field",
	} {
		if got := d.send("POST", all, body, 422, false, admin); field(d.t, got, "error", "message") != fault {
			d.t.Errorf("%s: got %s, want %s", body, got, fault)
		}
	}
	for _, url := range []string{
		"http://127.0.0.1:1/", "http://localhost/", "http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/", "http://a:b@93.184.215.14/",
	} {
		d.send("POST", all, `{"url":"`+url+`","event_types":["key.changed"]}`, 422, true, admin)
		d.send("PATCH", one, `{"url":"`+url+`"}`, 422, true, admin)
	}
	d.send("POST", all, `{"url":"https://93.184.215.14/","event_types":["key.changed"]}`, 401, true)

	changed := d.send("PATCH", one, `{"url":"http://93.184.215.14:81/","event_types":["budget.exhausted"],"status":"disabled"}`, 200,
		true, admin)
	if got := d.send("GET", one, "", 200, true, admin); got != changed ||
		!strings.Contains(got, `"url":"http://93.184.215.14:81/","event_types":["budget.exhausted"],"status":"disabled"`) {
		d.t.Errorf("got %s, changed to %s", got, changed)
	}
	d.send("PATCH", one, `{"status":"active"}`, 200, true, admin)
	d.send("PATCH", one, `{}`, 422, false, admin)
	d.send("PATCH", one, `{"status":"gone"}`, 422, false, admin)
	d.send("PATCH", one, `{"status":`, 400, false, admin)
	rotated := d.send("POST", one+"/rotate", "", 200, true, admin)
	if next := field(d.t, rotated, "secret"); next == secret || next == "" {
		d.t.Errorf("rotated to %s", rotated)
	}
	d.send("POST", one+"/rotate", `{}`, 200, true, admin)
	d.send("POST", one+"/rotate", `{"secret":"whsec_"}`, 422, true, admin)

	d.deliveries(store, one, id, admin)
	for _, path := range []string{all + "/whk_" + strings.Repeat("0", 32), all + "/whk_0"} {
		d.send("GET", path, "", 404, true, admin)
		d.send("PATCH", path, `{"status":"active"}`, 404, true, admin)
		d.send("DELETE", path, "", 404, true, admin)
		d.send("POST", path+"/rotate", "", 404, true, admin)
		d.send("GET", path+"/deliveries", "", 404, true, admin)
		d.send("POST", path+"/retry", "", 404, true, admin)
		d.send("POST", path+"/deliveries/dlv_0/replay", "", 404, true, admin)
	}
	if got := d.send("DELETE", one, "", 204, true, admin); got != "" {
		d.t.Errorf("got %s", got)
	}
	d.send("GET", one, "", 404, true, admin)
	changes := must.Get(store.Changes(d.t.Context(), audit.ChangeQuery{Limit: 1000}))(d.t)
	kinds := make(map[audit.ChangeKind]int)
	for _, c := range changes {
		if strings.HasPrefix(c.Subject, spend.PrefixWebhook) {
			kinds[c.Kind]++
		}
		if strings.Contains(c.Details, "whsec") {
			d.t.Errorf("the record has a secret: %s", c.Details)
		}
	}
	if kinds[audit.WebhookCreated] != 1 || kinds[audit.WebhookChanged] != 4 || kinds[audit.WebhookDeleted] != 1 {
		d.t.Errorf("recorded %v", kinds)
	}
}

// deliveries lists attempts, and replays one.
func (d *described) deliveries(store audit.Store, one, webhookID, admin string) {
	ctx, node := d.t.Context(), spend.NewID(time.Now())
	id, err := spend.ParseID(webhookID, spend.PrefixWebhook)
	if err == nil {
		_, err = store.LeaseWebhooks(ctx, node, nil, time.Minute)
	}
	for i := range 3 {
		r := audit.DeliveryResult{Delivery: audit.Delivery{
			ID: spend.NewID(time.Now()), WebhookID: id, Sequence: int64(i + 1), EventType: audit.EventKeyChanged, Attempt: 1, StatusCode: 204,
		}}
		if i == 1 {
			r.StatusCode, r.Error, r.RetryIn = 0, "cannot connect", time.Hour
		}
		if err == nil {
			err = store.RecordDelivery(ctx, node, r)
		}
	}
	must.Do(d.t, err)
	page := d.send("GET", one+"/deliveries?limit=2", "", 200, true, admin)
	if strings.Count(page, `"delivery_id"`) != 2 ||
		!strings.Contains(page, `"delivered":false,"status_code":null,"error":"cannot connect","next_attempt_at":"2`) {
		d.t.Error(page)
	}
	cursor := field(d.t, page, "pagination", "next_cursor")
	last := d.send("GET", one+"/deliveries?cursor="+cursor, "", 200, true, admin)
	if strings.Count(last, `"delivery_id"`) != 1 || !strings.Contains(last, `"sequence":1,"attempt":1`) {
		d.t.Error(last)
	}
	d.send("GET", one+"/deliveries?limit=0", "", 422, false, admin)
	d.send("GET", one+"/deliveries?status=delivered", "", 422, false, admin)
	d.send("GET", one+"/deliveries?status=failed", "", 200, true, admin)
	d.send("GET", one+"/deliveries?status=failed&cursor="+cursor, "", 422, true, admin) // of other filters
	d.send("POST", one+"/retry", `{"now":true}`, 422, true, admin)
	delivery := last[strings.Index(last, "dlv_"):][:len("dlv_")+32]
	d.send("POST", one+"/deliveries/"+delivery+"/replay", "", 202, true, admin)
	d.send("POST", one+"/deliveries/"+delivery+"/replay", `{"now":true}`, 422, true, admin)
	d.send("POST", one+"/deliveries/dlv_"+strings.Repeat("0", 32)+"/replay", "", 404, true, admin)
	if task, err := store.HoldWebhook(ctx, node, id, audit.WebhookSeen{}, time.Minute); err != nil || task.FirstRetry() == nil ||
		task.FirstRetry().Sequence != 1 {
		d.t.Errorf("to do after a replay: %+v, %v", task, err)
	}
	d.send("POST", one+"/retry", "", 202, true, admin)
}

// A deployment may deliver within its own network, but not to what a cloud keeps at
// link-local addresses.
func TestPrivateWebhooks(t *testing.T) {
	options := realOptions(t, func(c *hotpath.Components) { c.PrivateWebhooks = true })
	address := serveOn(t, New(options))
	for url, want := range map[string]int{"http://127.0.0.1:1/": 201, "http://10.0.0.1/": 201, "http://169.254.169.254/": 422} {
		a := doAt(t, address, "POST", "/v1/webhooks", `{"url":"`+url+`","event_types":["key.changed"]}`, "X-Admin-Key: "+adminKey)
		if a.status != want {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
		if got := a.header.Get("Cache-Control"); want == 201 && got != "no-store" {
			t.Errorf("Cache-Control is %q where a secret is shown", got)
		}
	}
}
