package checkpoint

import (
	"crypto/ed25519"
	"encoding/binary"

	"spendgate/audit/spend"
)

// Fold says that the next batches of a chain left the database for an archive.
type Fold struct {
	Chain    spend.ID
	From, To int64      // the numbers of the first batch and of the last
	Previous spend.Hash // the head before the first batch; zero if there is none
	Head     spend.Hash // of the last
	Entries  int64      // of all folded batches
	Day      int64      // the last day of which the batches list checks, in days since 1970
	Manifest spend.Hash // SHA-256 of the archive's manifest
}

const foldDomain = "spendgate fold 1\n"

// message returns the signed bytes: each field has a fixed length.
func (f *Fold) message() []byte {
	b := append([]byte(foldDomain), f.Chain[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(f.From))
	b = binary.BigEndian.AppendUint64(b, uint64(f.To))
	b = append(append(b, f.Previous[:]...), f.Head[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(f.Entries))
	b = binary.BigEndian.AppendUint64(b, uint64(f.Day))
	return append(b, f.Manifest[:]...)
}

// SignFold returns the signature of a fold.
func (k Key) SignFold(f *Fold) []byte { return ed25519.Sign(k.secret, f.message()) }

// SignedFold reports whether the signature of a fold is of this key.
func (p PublicKey) SignedFold(f *Fold, signature []byte) bool {
	return len(p) == ed25519.PublicKeySize && ed25519.Verify(ed25519.PublicKey(p), f.message(), signature)
}
