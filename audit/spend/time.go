package spend

import "time"

// AppendTime writes a time as responses and reports show it (S5): RFC 3339, UTC, milliseconds. The
// standard form is the one that package time writes fast; the milliseconds go before its Z.
func AppendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / 1e6
	return append(dst[:len(dst)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// TimeText returns what AppendTime writes as a string.
func TimeText(t time.Time) string { return string(AppendTime(nil, t)) }
