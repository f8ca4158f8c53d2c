package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

func parseText(s string) (string, error) { return s, nil }

// parseAddr accepts what a listener takes: host:port with a numeric port.
func parseAddr(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("must be host:port or :port, not %q", s)
	}
	return s, nil
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("must be debug, info, warn or error, not %q", s)
}

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(strings.ToLower(s))
	if err != nil {
		return false, fmt.Errorf("must be true or false, not %q", s)
	}
	return b, nil
}

const (
	defaultWebhooksInFlight = 8
	mostWebhooksInFlight    = 64
)

// numberFrom returns what reads a number between both, inclusive.
func numberFrom(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("must be a number from %d to %d, not %q", least, most, s)
		}
		return n, nil
	}
}

// leastEventsRetention is more than for how long webhooks are tried, and readers may be away.
const (
	leastEventsRetention = 30
	mostEventsRetention  = 36500
)

// parseEventsRetention reads a number of days.
func parseEventsRetention(s string) (time.Duration, error) {
	days, err := strconv.Atoi(strings.TrimSuffix(s, "d"))
	if err != nil || !strings.HasSuffix(s, "d") || days < leastEventsRetention || days > mostEventsRetention {
		return 0, fmt.Errorf("must be a number of days, at least %d, such as 90d, not %q", leastEventsRetention, s)
	}
	return time.Duration(days) * 24 * time.Hour, nil
}

// parsePaymentsKeep reads a number of days; 0 is for ever.
func parsePaymentsKeep(s string) (time.Duration, error) {
	const least, most = 35, 36500 // the store keeps them for as long whatever is set
	days, err := strconv.Atoi(s)
	if err != nil || days != 0 && days < least || days > most {
		return 0, fmt.Errorf("must be 0, which keeps payments permanently, or a number of days from %d to %d, not %q", least, most, s)
	}
	return time.Duration(days) * 24 * time.Hour, nil
}

// parseBytes reads a number of bytes, at least enough for one policy.
func parseBytes(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1<<20 {
		return 0, fmt.Errorf("must be a number of bytes, at least %d, not %q", 1<<20, s)
	}
	return n, nil
}

// parseAdminKeys takes one key, or two while clients move from one to the other.
func parseAdminKeys(s string) ([]Secret, error) {
	var keys []Secret
	for part := range strings.SplitSeq(s, ",") {
		key, err := parseKey(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) > 2 {
		return nil, errors.New("must be one key, or two separated by a comma")
	}
	return keys, nil
}

// parseKey refuses a key that no header could carry.
func parseKey(s string) (Secret, error) {
	if s == "" {
		return "", errors.New("has an empty key")
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return "", errors.New("has a key with a character other than printable ASCII, or with a space")
		}
	}
	return Secret(s), nil
}

// ParseToken refuses a token that no header could carry, or that can be guessed.
func ParseToken(s string) (Secret, error) {
	token, err := parseKey(s)
	if err == nil && len(s) < minSecret {
		err = fmt.Errorf("must have at least %d characters", minSecret)
	}
	return token, err
}

// parsePrefixes takes networks and single addresses, separated by commas.
func parsePrefixes(s string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		p, err := netip.ParsePrefix(part)
		if addr, addrErr := netip.ParseAddr(part); addrErr == nil {
			addr = addr.Unmap().WithZone("")
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("must be networks or addresses separated by commas (10.0.0.0/8,192.0.2.7), not %q", part)
		}
		if p.Addr().Is4In6() {
			return nil, fmt.Errorf("must write the IPv4 network %q as such", part)
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}

// parseDatabaseURL checks the form and check the parameters. It passes no error
// of net/url on, because those quote parts of the password.
func parseDatabaseURL(s string, check func(string) error) (Secret, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", errors.New("is not a URL: every host of several needs its port, and signs in user and password must be percent-encoded")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errors.New("must start with postgres://")
	}
	if u.Host == "" && u.Query().Get("host") == "" {
		return "", errors.New("names no host")
	}
	if err := check(s); err != nil {
		return "", fmt.Errorf("cannot be used: %w", err)
	}
	return Secret(s), nil
}

func parseAPIURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("must be http://host:port or https://host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must have no user, query or fragment")
	}
	s = strings.TrimRight(s, "/")
	if strings.HasSuffix(s, "/v1") {
		return "", errors.New("must be without /v1, which is a part of each path")
	}
	return s, nil
}
