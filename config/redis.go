package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Redis says where Redis is and how to talk to it. Exactly one of three kinds:
// a single server (neither Master nor Cluster), Sentinel (Master), Cluster.
type Redis struct {
	Addrs    []string // host:port; of the sentinels when Master is set
	Username string
	Password Secret
	DB       int
	TLS      bool

	Master           string // the name of the server in Sentinel
	SentinelUsername string
	SentinelPassword Secret

	Cluster bool
}

const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// parseRedis takes
//
//	redis[s]://[user:password@]host[:port][,host[:port]...][/db][?parameters]
//
// with the parameters cluster=true, master=NAME, sentinel_username and
// sentinel_password. Several hosts without a master are a cluster. No error
// quotes the URL: a password with an unescaped sign can end up in any part.
func parseRedis(s string) (Redis, error) {
	var r Redis
	scheme, rest, _ := strings.Cut(s, "://")
	if scheme != "redis" && scheme != "rediss" {
		return r, errors.New("must start with redis:// or rediss://")
	}
	r.TLS = scheme == "rediss"
	rest, query, _ := strings.Cut(rest, "?")
	rest, db, _ := strings.Cut(rest, "/")
	hosts := rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		hosts = rest[at+1:]
		if err := r.parseUser(rest[:at]); err != nil {
			return r, err
		}
	}
	clusterGiven, err := r.parseParameters(query)
	if err != nil {
		return r, err
	}
	if err := r.parseHosts(hosts); err != nil {
		return r, err
	}
	if db != "" {
		if r.DB, err = strconv.Atoi(db); err != nil || r.DB < 0 {
			return r, errors.New("must have nothing but the number of a database after the host; " +
				"a / in user or password is written %2F")
		}
	}
	return r, r.resolveKind(clusterGiven)
}

const maxName = 64

// parseName refuses braces, which choose a cluster's slot: all names in Redis must
// lie in one.
func parseName(s string) (string, error) {
	const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	if len(s) > maxName || strings.Trim(s, signs) != "" {
		return "", fmt.Errorf("must be at most %d letters, digits and . _ : -", maxName)
	}
	return s, nil
}

func (r *Redis) parseUser(userinfo string) error {
	user, password, found := strings.Cut(userinfo, ":")
	username, userErr := url.PathUnescape(user)
	secret, passwordErr := url.PathUnescape(password)
	if userErr != nil || passwordErr != nil {
		return errors.New("has a % in user or password that is not percent-encoded")
	}
	if !found || secret == "" {
		return errors.New("has a user but no password; a password alone is written redis://:password@host")
	}
	r.Username, r.Password = username, Secret(secret)
	return nil
}

// parseParameters reports whether the URL says cluster=true or false at all.
func (r *Redis) parseParameters(query string) (clusterGiven bool, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return false, errors.New("has parameters after ? that are not percent-encoded")
	}
	for name, given := range values {
		if len(given) > 1 || given[0] == "" {
			return false, errors.New("must give each parameter after ? one value")
		}
		value := given[0]
		switch name {
		case "cluster":
			clusterGiven = true
			if r.Cluster, err = strconv.ParseBool(value); err != nil {
				return false, errors.New("must say cluster=true or cluster=false")
			}
		case "master":
			r.Master = value
		case "sentinel_username":
			r.SentinelUsername = value
		case "sentinel_password":
			r.SentinelPassword = Secret(value)
		default:
			return false, errors.New("has an unknown parameter after ?; known are cluster, master, sentinel_username and sentinel_password")
		}
	}
	return clusterGiven, nil
}

func (r *Redis) parseHosts(hosts string) error {
	port := redisPort
	if r.Master != "" {
		port = sentinelPort
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := withPort(strings.TrimSpace(host), port)
		if err != nil {
			return err
		}
		r.Addrs = append(r.Addrs, addr)
	}
	return nil
}

// withPort completes host, host:port, [v6] and [v6]:port.
func withPort(host, port string) (string, error) {
	bad := errors.New("must name its hosts as host or host:port, separated by commas; " +
		"signs in user and password must be percent-encoded")
	if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
		host += ":" + port
	}
	name, number, err := net.SplitHostPort(host)
	if err != nil || name == "" || strings.ContainsAny(name, " /@%?#") {
		return "", bad
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
		return "", bad
	}
	return net.JoinHostPort(name, number), nil
}

// resolveKind decides the kind and refuses contradictions.
func (r *Redis) resolveKind(clusterGiven bool) error {
	switch {
	case r.Master != "" && r.Cluster:
		return errors.New("must not have both cluster=true and master: Sentinel guards a single server")
	case r.Master == "" && (r.SentinelUsername != "" || r.SentinelPassword != ""):
		return errors.New("must name the master when it has a login for the sentinels")
	case r.Master == "" && len(r.Addrs) > 1 && clusterGiven && !r.Cluster:
		return fmt.Errorf("has %d hosts, which only a cluster or Sentinel (master=NAME) can have", len(r.Addrs))
	}
	r.Cluster = r.Cluster || r.Master == "" && len(r.Addrs) > 1
	if r.Cluster && r.DB != 0 {
		return errors.New("must not choose a database: a cluster has only database 0")
	}
	return nil
}
