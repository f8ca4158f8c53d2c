package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestRedisURL(t *testing.T) {
	tests := map[string]Redis{
		"redis://h":                      {Addrs: []string{"h:6379"}},
		"rediss://h:7000":                {Addrs: []string{"h:7000"}, TLS: true},
		"redis://u:p%2F%40ss@h:7000/3":   {Addrs: []string{"h:7000"}, Username: "u", Password: "p/@ss", DB: 3},
		"redis://:p@ss@h/":               {Addrs: []string{"h:6379"}, Password: "p@ss"},
		"redis://[2001:db8::1]":          {Addrs: []string{"[2001:db8::1]:6379"}},
		"redis://[::1]:7000":             {Addrs: []string{"[::1]:7000"}},
		"redis://:p@a,b:7000,[::1]/0":    {Addrs: []string{"a:6379", "b:7000", "[::1]:6379"}, Password: "p", Cluster: true},
		"redis://h?cluster=true":         {Addrs: []string{"h:6379"}, Cluster: true},
		"redis://h/2?cluster=false":      {Addrs: []string{"h:6379"}, DB: 2},
		"redis://:p@a,b/1?master=mymain": {Addrs: []string{"a:26379", "b:26379"}, Password: "p", DB: 1, Master: "mymain"},
		"redis://a?master=m&sentinel_username=s&sentinel_password=p%26": {
			Addrs: []string{"a:26379"}, Master: "m", SentinelUsername: "s", SentinelPassword: "p&",
		},
	}
	for s, want := range tests {
		if got, err := parseRedis(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %#v, %v\nwant %#v", s, got, err, want)
		}
	}
}

func TestRedisURLFaults(t *testing.T) {
	for _, s := range []string{
		"", "h:6379", "http://h", "redis:h", "redis://", "redis://,", "redis://a,", "redis://:6379", "redis://h:", "redis://h:0",
		"redis://h:65536", "redis://h:x", "redis://::1", "redis://a b", "redis://h/x", "redis://h/-1", "redis://h/0/1",
		"redis://user@h", "redis://user:@h", "redis://:%zz@h",
		"redis://h?db=1", "redis://h?cluster", "redis://h?cluster=maybe", "redis://h?cluster=true&cluster=true", "redis://h?master=",
		"redis://h?%zz=1", "redis://h?master=m&cluster=true", "redis://a,b?cluster=false", "redis://a,b/1", "redis://a/1?cluster=true",
		"redis://a?sentinel_password=x", "redis://a,redis://b",
	} {
		if got, err := parseRedis(s); err == nil {
			t.Errorf("%s: %+v", s, got)
		}
	}
}

func TestKeyPrefix(t *testing.T) {
	for s, ok := range map[string]bool{
		"staging:": true, "a.b_c-1": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
		"{a}": false, "a{": false, "}": false, "a b": false, "a{b}c": false, "é": false,
	} {
		if got, err := parseName(s); (err == nil) != ok || ok && got != s {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	c := mustLoad(t, Serve, redisURL, databaseURL, "SPENDGATE_REDIS_KEY_PREFIX=staging:")
	if c.RedisKeyPrefix != "staging:" {
		t.Errorf("%q", c.RedisKeyPrefix)
	}
}

func FuzzRedisURL(f *testing.F) {
	f.Add("redis://u:p@h:1/2?master=m")
	f.Add("rediss://a,[::1]:2?cluster=true")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRedis(s)
		if err != nil {
			return
		}
		if len(r.Addrs) == 0 || r.Master != "" && r.Cluster || r.Cluster && r.DB != 0 {
			t.Errorf("%q: %+v", s, r)
		}
	})
}
