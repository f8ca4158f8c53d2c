package spend

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"time"
)

// ID is a UUIDv7. Written out it is a prefix and 32 lower-case hex digits
// (S5). IDs of one clock sort by the time they were made.
type ID [16]byte

// The prefixes of written IDs. A violation shares the ID of its check.
const (
	PrefixCheck      = "chk_"
	PrefixViolation  = "viol_"
	PrefixKey        = "key_"
	PrefixPolicy     = "pol_"
	PrefixApproval   = "apr_"
	PrefixEvent      = "evt_"
	PrefixWebhook    = "whk_"
	PrefixDelivery   = "dlv_"
	PrefixRedemption = "rdm_"
	PrefixBacktest   = "bt_"
	PrefixSession    = "ses_"
	PrefixFreeze     = "frz_"
	PrefixGrant      = "grt_"
)

// ErrBadID is the error of ParseID for anything but a prefix and 32 lower-case hexadecimal digits.
var ErrBadID = errors.New("not an identifier")

// NewID makes the ID of an instant: 48 bits of milliseconds, 12 of the
// fraction of the millisecond (RFC 9562, section 6.2, method 3), 62 random.
func NewID(now time.Time) ID {
	var id ID
	ns := now.UnixNano()
	ms, fraction := ns/1e6, ns%1e6
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16|0x7000|uint64(fraction)*4096/1e6)
	_, _ = rand.Read(id[8:]) // never fails: the runtime aborts without randomness
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Time returns the instant of the ID, to the millisecond, in UTC: the timestamp of
// its check (S5).
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// IsZero reports whether the ID was never made.
func (id ID) IsZero() bool { return id == ID{} }

// Compare returns -1, 0 or +1 as id is before, equal to or after other.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// Next returns the smallest identifier that is greater.
func (id ID) Next() ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// Previous returns the greatest identifier that is smaller.
func (id ID) Previous() ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			break
		}
	}
	return id
}

// Later returns the greater of two identifiers.
func Later(a, b ID) ID { return slices.MaxFunc([]ID{a, b}, ID.Compare) }

// Earlier returns the smaller of two identifiers.
func Earlier(a, b ID) ID { return slices.MinFunc([]ID{a, b}, ID.Compare) }

// Append writes prefix and hex digits.
func (id ID) Append(dst []byte, prefix string) []byte {
	const digits = "0123456789abcdef"
	var text [2 * len(id)]byte // of a known length, which spares package hex's checks
	for i, b := range id {
		text[2*i], text[2*i+1] = digits[b>>4], digits[b&15]
	}
	return append(append(dst, prefix...), text[:]...)
}

// Text returns what Append writes as a string: id.Text(PrefixCheck).
func (id ID) Text(prefix string) string { return string(id.Append(nil, prefix)) }

// MarshalText returns the hex digits.
func (id ID) MarshalText() ([]byte, error) { return id.Append(nil, ""), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text), "")
	return err
}

// ParseID is the inverse of Text. It fails with ErrBadID.
func ParseID(s, prefix string) (ID, error) {
	var id ID
	if len(s) != len(prefix)+32 || s[:len(prefix)] != prefix {
		return id, ErrBadID
	}
	for _, c := range []byte(s[len(prefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return id, ErrBadID
		}
	}
	if _, err := hex.Decode(id[:], []byte(s[len(prefix):])); err != nil {
		return id, ErrBadID
	}
	return id, nil
}
