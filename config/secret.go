package config

import "log/slog"

// Secret is text that printing, logging and encoding hide: they show only
// whether there is any. Convert it to a string where it is used.
type Secret string

// String hides the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides the text from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the text from log handlers.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
