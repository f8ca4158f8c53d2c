package checkpoint

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Line is a checkpoint as it is written, without its signature.
type Line struct {
	Version  int        `json:"checkpoint"`
	Time     time.Time  `json:"time"`
	Full     bool       `json:"full"` // Heads has all chains; else the chains that changed since an earlier line
	Heads    []Head     `json:"heads"`
	Changes  LastChange `json:"changes"`
	Chains   int        `json:"chains"`   // how many there are
	Digest   Hex        `json:"digest"`   // over the heads of all chains
	Previous Hex        `json:"previous"` // SHA-256 of the line before; zeros in the first of a file
	Key      string     `json:"key"`      // PublicKey.ID
	// Acknowledged is there when the line was signed on purpose although the
	// chains contradict an earlier one. Such a line is full.
	Acknowledged *Acknowledged `json:"acknowledged,omitempty"`
}

// Acknowledged names what contradicts an earlier line, and why that was accepted.
type Acknowledged struct {
	Reason  string `json:"reason"`
	Chains  []Lost `json:"chains"`  // in no order
	Changes bool   `json:"changes"` // whether the chain of changes contradicts an earlier line, too
}

// Lost is a chain that does not go on from where an earlier line has it end.
type Lost struct {
	Chain ChainID `json:"chain"`
	Had   int64   `json:"had"` // the number of its last batch in the earlier line
	Has   int64   `json:"has"` // and now; 0 if the whole chain is gone
}

// Head is the end of a chain.
type Head struct {
	Chain ChainID `json:"chain"`
	Seq   int64   `json:"seq"`
	Head  Hex     `json:"head"`
}

// LastChange is the end of the chain of configuration changes; zero without changes.
type LastChange struct {
	Seq  int64 `json:"seq"`
	Head Hex   `json:"head"`
}

// lineVersion is the version of the lines that are written.
const lineVersion = 1

const (
	signatureDomain = "spendgate checkpoint 1\n"
	digestDomain    = "spendgate heads 1\n"
	signatureField  = `,"signature":"`
)

// Hex is a hash as text.
type Hex spend.Hash

// MarshalText writes hexadecimal digits.
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hexadecimal digits.
func (h *Hex) UnmarshalText(text []byte) error { return decode(h[:], text) }

// ChainID is a chain's identifier as text: 32 hexadecimal digits.
type ChainID spend.ID

// MarshalText writes hexadecimal digits.
func (c ChainID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, c[:]), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (c *ChainID) UnmarshalText(text []byte) error { return decode(c[:], text) }

func decode(to, text []byte) error {
	if hex.DecodedLen(len(text)) != len(to) {
		return fmt.Errorf("want %d hexadecimal digits, not %q", hex.EncodedLen(len(to)), text)
	}
	_, err := hex.Decode(to, text)
	return err
}

// Digest is SHA-256 over the domain and, in the order of chains, each chain with
// the number and the head of its last batch.
func Digest(heads []chain.Head) spend.Hash {
	sorted := slices.SortedFunc(slices.Values(heads), func(a, b chain.Head) int { return a.Chain.Compare(b.Chain) })
	b := []byte(digestDomain)
	for _, h := range sorted {
		b = append(b, h.Chain[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(h.Seq))
		b = append(b, h.Head[:]...)
	}
	return sha256.Sum256(b)
}

// Key signs checkpoints.
type Key struct{ secret ed25519.PrivateKey }

// NewKey makes the key of a seed of 32 bytes.
func NewKey(seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("a key is %d bytes, not %d", ed25519.SeedSize, len(seed))
	}
	return Key{ed25519.NewKeyFromSeed(seed)}, nil
}

// Public returns the key with which the key's checkpoints are verified.
func (k Key) Public() PublicKey {
	public, _ := k.secret.Public().(ed25519.PublicKey) // always one
	return PublicKey(public)
}

// PublicKey verifies checkpoints.
type PublicKey ed25519.PublicKey

// ParsePublicKey reads a public key of 32 bytes in base64 or hexadecimal.
func ParsePublicKey(text string) (PublicKey, error) {
	key, err := hex.DecodeString(text)
	if err != nil {
		key, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("a public key is 32 bytes in base64 or hexadecimal")
	}
	return PublicKey(key), nil
}

// ID names the key in a line: the first 8 bytes of its SHA-256.
func (p PublicKey) ID() string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:8])
}

// sign returns the line as it is written, without a newline. The signature is
// over the domain and the text up to the signature's field.
func (k Key) sign(l Line) ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(text, []byte("}"))
	signature := ed25519.Sign(k.secret, append([]byte(signatureDomain), text...))
	text = append(text, signatureField...)
	text = base64.StdEncoding.AppendEncode(text, signature)
	return append(text, `"}`...), nil
}

// ErrTorn is the error of Parse for a line that was not completely written.
var ErrTorn = errors.New("not a whole line")

// Parse reads a line and verifies its signature.
func Parse(text []byte, key PublicKey) (Line, error) {
	var l Line
	at := bytes.LastIndex(text, []byte(signatureField))
	encoded, whole := bytes.CutSuffix(text, []byte(`"}`))
	if at < 0 || !whole || !isWhole(text) {
		return l, ErrTorn
	}
	signature, err := base64.StdEncoding.DecodeString(string(encoded[at+len(signatureField):]))
	if err != nil || !ed25519.Verify(ed25519.PublicKey(key), append([]byte(signatureDomain), text[:at]...), signature) {
		return l, errors.New("its signature is not of this key")
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("it cannot be read: %w", err)
	}
	if l.Version != lineVersion {
		return l, fmt.Errorf("its format %d is none that this program knows", l.Version)
	}
	return l, nil
}
