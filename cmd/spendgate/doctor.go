package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/cmd/spendgate/auditcmd"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
	scripts "spendgate/deploy/postgres"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/wire"
)

// doctor looks at everything that a fleet needs, and says of each part whether it is well, or what to do.
type doctor struct {
	c     config.Config
	out   io.Writer
	ill   int
	ready int // nodes
	store *postgres.Store
}

func doctorCommand(flags *flag.FlagSet) cli.Action {
	balancer := flags.String("balancer", "", "ask the load balancer at `URL`")
	gateway := flags.String("gateway", "", "ask the gateway whose metrics are at `URL`")
	metrics := flags.String("prometheus", "", "ask the Prometheus at `URL` for what the alerts need")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		c, store, err := openQuietly(ctx, p)
		if err != nil {
			return err
		}
		defer store.Close()
		d := &doctor{c: c, out: p.Stdout, store: store}
		d.settings(ctx)
		d.servers(ctx)
		if *balancer != "" {
			err := get(ctx, *balancer+"/health", new(wire.Health), "X-Request-ID")
			if err == nil && d.ready == 0 {
				err = errors.New("it answers, but no node behind it is known to be ready")
			}
			d.say(fmt.Sprintf("balancer, nodes that are ready: %d", d.ready), err,
				"start it, open its port, have it pass headers on, and see that a node is ready")
		}
		if *gateway != "" {
			d.say("gateway", get(ctx, *gateway+"/readyz", nil), "start it; it is ready once it reaches the service with its key")
		}
		if *metrics != "" {
			d.alerts(ctx, *metrics)
		}
		if d.ill > 0 {
			return fmt.Errorf("findings: %d", d.ill)
		}
		return nil
	}
}

// say prints one line about one part.
func (d *doctor) say(part string, err error, remedy string) bool {
	if err == nil {
		fmt.Fprintf(d.out, "ok    %s\n", part) //nolint:errcheck // nobody reads it then
		return true
	}
	d.ill++
	fmt.Fprintf(d.out, "FAIL  %s: %v. Remedy: %s\n", part, err, remedy) //nolint:errcheck // nobody reads it then
	return false
}

// skip prints what was not looked at.
func (d *doctor) skip(parts, why string) {
	fmt.Fprintf(d.out, "SKIP  %s because %s\n", parts, why) //nolint:errcheck // nobody reads it then
}

// settings looks at what the settings name on this machine and elsewhere.
func (d *doctor) settings(ctx context.Context) {
	if d.c.Checkpoints.Key != "" {
		_, err := auditcmd.NewCheckpoints(d.c, d.store, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err == nil {
			err = writable(d.c.Checkpoints.File)
		}
		d.say("checkpoint file", err, "give its folder to the user of the node, and the key as `spendgate audit keygen` prints it")
	}
	if o := d.c.OIDC; o != nil {
		_, err := newSignIn(o, slog.New(slog.DiscardHandler))
		var found struct {
			Issuer string `json:"issuer"`
		}
		if err == nil {
			err = get(ctx, o.Issuer+"/.well-known/openid-configuration", &found)
		}
		if err == nil && found.Issuer != o.Issuer {
			err = fmt.Errorf("the provider calls itself %q", found.Issuer)
		}
		d.say("sign-in's provider", err, "correct SPENDGATE_OIDC_ISSUER, or let this machine reach the provider")
	}
	for _, port := range ports(ctx, d.c) {
		d.say("port "+port.name, port.err, "end the other program, or give the node an address of this machine with a free port")
	}
}

// ports looks whether a node could listen where the settings say.
func ports(ctx context.Context, c config.Config) []finding {
	return []finding{
		{name: "SPENDGATE_LISTEN_ADDR", err: usable(ctx, c.ListenAddr)},
		{name: "SPENDGATE_OPS_ADDR", err: usable(ctx, c.OpsAddr)},
	}
}

// writable reports whether a file could be written to, without a change of the file.
func writable(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0) //nolint:gosec // the setting names it
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if f, err = os.CreateTemp(filepath.Dir(file), ".doctor-*"); err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// usable fails if nothing can listen at an address, unless that is because a node is at work there.
func usable(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l.Close()
	}
	host, port, split := net.SplitHostPort(address)
	if ip := net.ParseIP(host); split == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	at := "http://" + net.JoinHostPort(host, port) + "/livez"
	if request, invalid := http.NewRequestWithContext(ctx, http.MethodGet, at, nil); invalid == nil {
		if response, silent := http.DefaultTransport.RoundTrip(request); silent == nil {
			defer response.Body.Close() //nolint:errcheck // nothing is read
			if response.Header.Get("Server") == "spendgate" {
				return nil // this node's, ready or not
			}
		}
	}
	return err
}

// servers looks at Redis and PostgreSQL, and at the nodes that name themselves there.
func (d *doctor) servers(ctx context.Context) {
	f := lookAhead(ctx, d.c, d.store)
	remedies := map[string]string{
		"redis": "see SPENDGATE_REDIS_URL, the server, its rights and its clock (docs/operate/runbook.md, Redis is lost)",
		"store": "see SPENDGATE_DATABASE_URL, the server, its settings and its clock (docs/operate/runbook.md, PostgreSQL is lost)",
	}
	for _, found := range f.dependencies {
		d.say(found.name, found.err, remedies[found.name])
	}
	if f.status == nil {
		d.skip("durability, schema, rights of the role, a commit, nodes at work", "the store could not be asked")
		return
	}
	var missing error
	if f.status.StandbysMissing > 0 {
		missing = errors.New("commits wait for a standby that is not connected")
	}
	d.say("durability: "+f.status.Durability, missing, "start the standby, or take it out of synchronous_standby_names")
	migrated, err := postgres.Migrated(ctx, string(d.c.DatabaseURL))
	if err == nil && !migrated {
		err = errors.New("it is older than this build")
	}
	if !d.say("schema", err, "run `spendgate migrate` as the owner") {
		d.skip("rights of the role, a commit, nodes at work", "the schema is not known to be this build's")
		return
	}
	d.say("rights of the role", postgres.Allowed(ctx, string(d.c.DatabaseURL), scripts.Grants),
		"run `spendgate migrate --service ROLE` as the owner")
	d.say("a commit", d.store.Rehearse(ctx), "see the error; docs/operate/runbook.md, PostgreSQL is lost")
	const same = "the same redis as the nodes at work"
	if f.ready() {
		d.say(same, vet(ctx, d.c, d.store), "give this node their SPENDGATE_REDIS_URL and SPENDGATE_REDIS_KEY_PREFIX")
	} else {
		d.skip(same, "redis or the store cannot be used")
	}
	d.fleet(ctx)
}

// fleet looks at the nodes that run, which name themselves in the database.
func (d *doctor) fleet(ctx context.Context) {
	in, err := audit.ReadZones(ctx, d.store)
	if own := policy.Zones().Release; err == nil && in.Release != "" && in.Release != own {
		err = &zonesError{own, in}
	}
	d.say("time zones", err, "give all nodes one build, or run `spendgate zones`")
	nodes, _, err := d.store.Nodes(ctx)
	if err == nil && len(nodes) == 0 {
		err = errors.New("none has been seen for 20 s")
	}
	if !d.say(fmt.Sprintf("nodes at work: %d", len(nodes)), err, "start them") {
		return
	}
	for _, n := range nodes {
		var ready wire.Readiness
		err := get(ctx, "http://"+n.Host+"/readyz", &ready)
		if d.say("node "+n.Host, err, "see its /readyz and its log; this machine must reach its operations port") {
			d.ready++
		}
	}
}

// alerts looks for the series without which alerts are silent.
func (d *doctor) alerts(ctx context.Context, prometheus string) {
	for part, c := range map[string]struct{ query, remedy string }{
		"metrics of nodes":            {`up{job="spendgate"} == 1`, "scrape the nodes as job spendgate"},
		"metrics of the probe":        {"spendgate_probe_success == 1", "run `spendgate probe`, and scrape it"},
		"metrics of the verification": {"spendgate_verify_last_success_timestamp_seconds", "enable spendgate-verify.timer"},
		"metrics of redis":            {"redis_up == 1", "run redis_exporter, as job spendgate-redis"},
		"metrics of PostgreSQL":       {"pg_up == 1", "run postgres_exporter, as job spendgate-postgres"},
		"the rules":                   {"spendgate:checks:rate5m", "load deploy/prometheus/rules.yaml"},
		"one version":                 {"count(count by (version) (spendgate_build_info)) == 1", "end the upgrade"},
	} {
		var answer struct {
			Data struct{ Result []any }
		}
		err := get(ctx, prometheus+"/api/v1/query?query="+url.QueryEscape(c.query), &answer)
		if err == nil && len(answer.Data.Result) == 0 {
			err = errors.New("no series")
		}
		d.say(part, err, c.remedy)
	}
}

// get reads the JSON at a URL, unless into is nil, and fails unless the status is 200 and the answer has the headers.
func get(ctx context.Context, at string, into any, headers ...string) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	lacks := func(name string) bool { return response.Header.Get(name) == "" }
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %d: %.300s", at, response.StatusCode, body)
	case slices.ContainsFunc(headers, lacks):
		return fmt.Errorf("%s answers without the header %s, which the service sends", at, strings.Join(headers, ", "))
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}
