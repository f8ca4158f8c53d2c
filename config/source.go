package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	prefix     = "SPENDGATE_"
	fileSuffix = "_FILE"

	// maxFile is far more than any setting needs; an endless file must not fill
	// the memory.
	maxFile = 64 << 10
)

// settings returns all names that may follow the prefix.
func settings() []string {
	return []string{
		"LISTEN_ADDR", "OPS_ADDR", "REDIS_URL", "REDIS_KEY_PREFIX", "DATABASE_URL", "ADMIN_KEY",
		"TRUSTED_PROXIES", "DEMO", "MAX_RATE_LIMIT_RPM", "FREEZE_RELEASE_REQUIRED", "MAX_POLICY_BYTES", "DEPLOYMENT",
		"LOG_LEVEL", "DATA_DIR", "PPROF", "API_URL", "API_KEY",
		"MCP_TOKEN", "URL", "CHECKPOINT_KEY", "CHECKPOINT_FILE", "CHECKPOINT_INTERVAL", "ALLOW_UNSAFE_DURABILITY",
		"WEBHOOK_PRIVATE_ADDRESSES", "WEBHOOK_IN_FLIGHT", "EVENTS_RETENTION", "PAYMENTS_KEEP_DAYS", "ARCHIVE_DIR",
		"IGNORE_UNKNOWN_SETTINGS", "CONSOLE", "CONSOLE_URL",
		"OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "OIDC_REDIRECT_URL", "OIDC_ROLES",
		"OIDC_GROUPS_CLAIM", "OIDC_EMAIL_CLAIM", "OIDC_NAME_CLAIM",
	}
}

// source is the environment while it is read.
type source struct {
	env    map[string]string // variables with the prefix that are not blank
	faults []error
}

func newSource(environ []string) *source {
	s := &source{env: make(map[string]string)}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || strings.TrimSpace(value) == "" {
			continue
		}
		// If a name occurs twice, the first counts, as with os.Getenv.
		if _, seen := s.env[name]; !seen {
			s.env[name] = value
		}
	}
	return s
}

// fault records what is wrong with a setting.
func (s *source) fault(name, text string) {
	s.faults = append(s.faults, errors.New(prefix+name+": "+text))
}

// given reports whether the setting is there, in either form.
func (s *source) given(name string) bool {
	_, plain := s.env[prefix+name]
	_, file := s.env[prefix+name+fileSuffix]
	return plain || file
}

// require adds a fault when the setting is absent.
func (s *source) require(name, example string) {
	if !s.given(name) {
		s.fault(name, "is required, for example "+example)
	}
}

// read returns the parsed value of a setting, or the fallback if it is absent. Errors of parse must
// not quote a value that may be secret.
func read[T any](s *source, name string, fallback T, parse func(string) (T, error)) T {
	text, ok := s.text(name)
	if !ok {
		return fallback
	}
	value, err := parse(text)
	if err != nil {
		s.fault(name, err.Error())
		return fallback
	}
	return value
}

// text returns the setting's raw value from the variable or the file it names.
func (s *source) text(name string) (string, bool) {
	value, plain := s.env[prefix+name]
	path, file := s.env[prefix+name+fileSuffix]
	switch {
	case plain && file:
		s.fault(name, "is given twice, also as "+prefix+name+fileSuffix)
		return "", false
	case file:
		content, err := readFile(path)
		if err != nil {
			s.fault(name+fileSuffix, err.Error())
			return "", false
		}
		return content, true
	default:
		return strings.TrimSpace(value), plain
	}
}

// readFile returns a file's content without the newlines at its end. Its errors
// do not hold the path: if the two variables are confused it is a secret.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close() //nolint:errcheck // only read
		var content []byte
		if content, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil {
			return checkFile(string(content))
		}
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return "", fmt.Errorf("cannot read the file that it names: %w", err)
}

func checkFile(content string) (string, error) {
	if len(content) > maxFile {
		return "", errors.New("the file that it names is longer than 64 KiB")
	}
	content = strings.TrimRight(content, "\r\n")
	if strings.TrimSpace(content) == "" {
		return "", errors.New("the file that it names is empty")
	}
	return content, nil
}

// refuseUnknown adds a fault for each variable that is no setting. If such variables are to be
// ignored, as after a rollback to an older version, it returns notices instead.
func (s *source) refuseUnknown() (notices []string) {
	known, ignore := settings(), read(s, "IGNORE_UNKNOWN_SETTINGS", false, parseBool)
	for _, variable := range slices.Sorted(maps.Keys(s.env)) {
		name := strings.TrimPrefix(variable, prefix)
		is := slices.Contains(known, name) || slices.Contains(known, strings.TrimSuffix(name, fileSuffix))
		switch {
		case is || serviceLink(name, s.env[variable]):
		case ignore:
			notices = append(notices, prefix+name+" is no setting of this version, and is ignored")
		default:
			s.fault(name, "is no setting; there are "+prefix+"... "+strings.Join(known, ", ")+", each also with "+fileSuffix)
		}
	}
	return notices
}

// serviceLink reports whether Kubernetes set the variable: it puts such variables into every
// container of a namespace that has a Service called spendgate or spendgate-something.
func serviceLink(name, value string) bool {
	for _, mark := range []string{"SERVICE_HOST", "SERVICE_PORT"} {
		if strings.HasPrefix(name, mark) || strings.Contains(name, "_"+mark) {
			return true
		}
	}
	for _, protocol := range []string{"tcp", "udp", "sctp"} {
		if strings.HasPrefix(value, protocol+"://") && strings.Contains("_"+name, "_PORT") {
			return true // SPENDGATE_PORT=tcp://10.0.0.1:8080, and the same as SPENDGATE_PORT_8080_TCP
		}
		if strings.Contains("_"+name, "_PORT_") && strings.Contains(name+"_", "_"+strings.ToUpper(protocol)+"_") {
			return true // SPENDGATE_PORT_8080_TCP_ADDR, _PORT, _PROTO
		}
	}
	return false
}
