package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

func project(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var nodeNames = []string{"node1", "node2", "node3"}

// Nodes are alike, have no rights, and have only known settings.
func TestComposeNodes(t *testing.T) {
	p, known := project(t), settings(t)
	for _, name := range nodeNames {
		node := p.Services[name]
		if !node.ReadOnly || strings.HasPrefix(node.User, "0") || !slices.Equal(node.CapDrop, []string{"ALL"}) || len(node.SecurityOpt) != 1 {
			t.Errorf("%s has rights: %+v", name, node)
		}
		if node.StopGracePeriod == nil || time.Duration(*node.StopGracePeriod) < 15*time.Second {
			t.Errorf("%s is killed after %v", name, node.StopGracePeriod)
		}
		var secrets []string
		for _, secret := range node.Secrets {
			secrets = append(secrets, "/run/secrets/"+secret.Source)
		}
		for variable, value := range node.Environment {
			if !known[variable] {
				t.Errorf("%s: %s is no setting", name, variable)
			}
			if strings.HasSuffix(variable, "_FILE") && !slices.Contains(secrets, *value) {
				t.Errorf("%s: %s is none of its secrets %q", name, *value, secrets)
			}
		}
		if node.DependsOn["redis"].Condition != types.ServiceConditionHealthy || p.Services["redis"].HealthCheck == nil ||
			node.DependsOn["migrate"].Condition != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s does not wait for its servers: %v", name, node.DependsOn)
		}
		if file := filepath.Join(node.Build.Context, node.Build.Dockerfile); !exists(file) {
			t.Errorf("%s: no %s", name, file)
		}
	}
}

// Nodes connect with a role that owns nothing. The containers that have the secrets of the owner or
// the administrator make the roles and the schema, and end.
func TestComposeRoles(t *testing.T) {
	p := project(t)
	has := make(map[string][]string)
	for name, service := range p.Services {
		for _, secret := range service.Secrets {
			has[secret.Source] = append(has[secret.Source], name)
		}
	}
	for secret, want := range map[string][]string{
		"owner-url": {"migrate"}, "owner-password": {"roles"}, "service-password": {"roles"}, "postgres-password": {"postgres", "roles"},
		"database-url": nodeNames, "grafana-password": {"grafana"}, "admin-key": nodeNames,
	} {
		if slices.Sort(has[secret]); !slices.Equal(has[secret], want) {
			t.Errorf("%s is had by %q, want %q", secret, has[secret], want)
		}
	}
	migrate, roles := p.Services["migrate"], p.Services["roles"]
	if !slices.Equal(migrate.Command, types.ShellCommand{"migrate", "--service", "spendgate"}) ||
		migrate.Restart != "no" || roles.Restart != "no" ||
		migrate.DependsOn["roles"].Condition != types.ServiceConditionCompletedSuccessfully ||
		roles.DependsOn["postgres"].Condition != types.ServiceConditionHealthy || p.Services["postgres"].HealthCheck == nil {
		t.Errorf("the schema is made by %+v after %+v", migrate, roles)
	}
}

// The load balancer lists the nodes, and they trust it.
func TestComposeBalancer(t *testing.T) {
	p := project(t)
	balancer := p.Services["haproxy"]
	for i, name := range nodeNames {
		number := string(rune('1' + i))
		address := p.Services[name].Networks["fleet"].Ipv4Address
		if got := *balancer.Environment["NODE"+number]; address == "" || got != address+":8080" ||
			*balancer.Environment["NODE"+number+"_OPS"] != "9090" {
			t.Errorf("%s is at %s, haproxy asks %s", name, address, got)
		}
		if trusted := *p.Services[name].Environment["SPENDGATE_TRUSTED_PROXIES"]; trusted != balancer.Networks["fleet"].Ipv4Address {
			t.Errorf("%s trusts %s", name, trusted)
		}
	}
	configuration, err := os.ReadFile("../haproxy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllSubmatch(configuration, -1) {
		if balancer.Environment[string(found[1])] == nil {
			t.Errorf("haproxy has no variable %s", found[1])
		}
	}
}

// Mounted files exist, and nothing listens on a public address.
func TestComposeFiles(t *testing.T) {
	p := project(t)
	for name, service := range p.Services {
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind && (!exists(volume.Source) || !volume.ReadOnly) {
				t.Errorf("%s mounts %s, which is not there, or may write it", name, volume.Source)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s listens on %s:%s", name, port.HostIP, port.Published)
			}
		}
		if !strings.Contains(service.Image, ":") || strings.HasSuffix(service.Image, ":latest") {
			t.Errorf("%s is of no version: %s", name, service.Image)
		}
	}
	var prometheus struct {
		ScrapeConfigs []struct {
			JobName       string                       `json:"job_name"`
			StaticConfigs []struct{ Targets []string } `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	content, err := os.ReadFile("../prometheus/prometheus.yaml")
	if err == nil {
		err = yaml.Unmarshal(content, &prometheus)
	}
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, static := range prometheus.ScrapeConfigs[0].StaticConfigs {
		targets = append(targets, static.Targets...)
	}
	if want := []string{"node1:9090", "node2:9090", "node3:9090"}; !slices.Equal(targets, want) ||
		prometheus.ScrapeConfigs[0].JobName != "spendgate" {
		t.Errorf("scrapes %q as %s", targets, prometheus.ScrapeConfigs[0].JobName)
	}
}

// secrets.sh makes every secret once, and those that belong together agree.
func TestComposeSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	run := func() {
		if out, err := exec.CommandContext(t.Context(), "../secrets.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run()
	made := make(map[string]string)
	for name, secret := range project(t).Secrets {
		content, err := os.ReadFile(filepath.Join(dir, filepath.Base(secret.File)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		made[name] = strings.TrimSpace(string(content))
	}
	for url, of := range map[string]string{
		"database-url": "spendgate:" + made["service-password"], "owner-url": "spendgate_owner:" + made["owner-password"],
	} {
		if !strings.HasPrefix(made[url], "postgres://"+of+"@postgres:5432/spendgate") {
			t.Errorf("%s has another role or password", url)
		}
	}
	seen := make(map[string]string)
	for _, name := range []string{"admin-key", "grafana-password", "postgres-password", "owner-password", "service-password"} {
		if other := seen[made[name]]; other != "" || len(made[name]) < 32 {
			t.Errorf("%s is that of %s, or short", name, other)
		}
		seen[made[name]] = name
	}
	password, _, _ := strings.Cut(strings.TrimPrefix(made["redis-url"], "redis://:"), "@redis:6379")
	if len(password) < 16 || !strings.Contains(made["redis-conf"], "requirepass "+password+"\nmaxmemory-policy noeviction\n") {
		t.Error("Redis has another password, or evicts")
	}
	run()
	if again, err := os.ReadFile(filepath.Join(dir, "admin-key")); err != nil || strings.TrimSpace(string(again)) != made["admin-key"] {
		t.Errorf("another admin key: %v", err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
