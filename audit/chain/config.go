package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"spendgate/audit/spend"
)

// The domains of the configuration's hashes, which SQL computes as well
// (hash_policy, hash_draft, hash_key, hash_webhook, record_change).
const (
	policyDomain  = "spendgate policy 1\n"
	draftDomain   = "spendgate draft 1\n"
	keyDomain     = "spendgate key 1\n"
	webhookDomain = "spendgate webhook 1\n"
	changeDomain  = "spendgate change 1\n"
)

// HashPolicy returns the hash of a policy's encoded row.
func HashPolicy(row []byte) spend.Hash {
	return sha256.Sum256(append([]byte(policyDomain), row...))
}

// HashDraft returns the hash of a draft's encoded row.
func HashDraft(row []byte) spend.Hash {
	return sha256.Sum256(append([]byte(draftDomain), row...))
}

// HashKey returns the hash of a key's encoded row.
func HashKey(row []byte) spend.Hash {
	return sha256.Sum256(append([]byte(keyDomain), row...))
}

// HashWebhook returns the hash of a webhook's encoded row.
func HashWebhook(row []byte) spend.Hash {
	return sha256.Sum256(append([]byte(webhookDomain), row...))
}

// ChangeHead returns the head of a change: over the head before (zero for the
// first) and the encoded row.
func ChangeHead(previous spend.Hash, row []byte) spend.Hash {
	return sha256.Sum256(append(append([]byte(changeDomain), previous[:]...), row...))
}

// epoch2000 is from when PostgreSQL counts the microseconds of a time.
var epoch2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// EncodeRow returns a row of these fields as PostgreSQL encodes it. A nil is
// null.
func EncodeRow(fields ...any) []byte {
	w := NewRow(nil)
	for _, f := range fields {
		switch f := f.(type) {
		case nil:
			w.raw(nil)
		case string:
			w.Text(f)
		case []byte:
			w.bytes(f)
		case bool:
			w.Bool(f)
		case int32:
			w.Int32(f)
		case int64:
			w.Int64(f)
		case time.Time:
			w.Int64(f.Sub(epoch2000).Microseconds())
		default:
			panic(fmt.Sprintf("BUG: a field of type %T is not encoded", f))
		}
	}
	return w.End()
}

// Integer returns the integer in an encoded field; 0 for null.
func Integer(field []byte) int64 {
	if len(field) == 0 {
		return 0
	}
	n := int64(int8(field[0])) //nolint:gosec // which has the sign
	for _, b := range field[1:] {
		n = n<<8 | int64(b)
	}
	return n
}

// Time returns the time in an encoded field.
func Time(field []byte) (time.Time, bool) {
	if len(field) != 8 {
		return time.Time{}, false
	}
	micros := int64(binary.BigEndian.Uint64(field)) //nolint:gosec // which has a sign
	return time.Unix(epoch2000.Unix()+micros/1e6, micros%1e6*1e3).UTC(), true
}
