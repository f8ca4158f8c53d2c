package signin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
)

// Loopback is a command line that signs a person in on their machine (RFC 8252): it waits
// at a port of the loopback address for a code, which only its verifier makes a session.
type Loopback struct {
	Port      uint16
	Challenge [sha256.Size]byte // SHA-256 of the verifier
}

// handOverFor is how long a code is good for: a redirect on one machine.
const handOverFor = time.Minute

// ParseLoopback reads where a command line waits, from the query of the sign-in's address.
func ParseLoopback(port, challenge string) (*Loopback, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	b, malformed := encoding.DecodeString(challenge)
	if err != nil || n == 0 || malformed != nil || len(b) != sha256.Size {
		return nil, fmt.Errorf("%w: port and challenge are not those of a command line", ErrAttempt)
	}
	return &Loopback{uint16(n), [sha256.Size]byte(b)}, nil
}

// State returns the state parameter that comes back with the code.
func (l *Loopback) State() string { return encoding.EncodeToString(l.Challenge[:]) }

// Shown returns the text that both the command line and the page show, so that a person sees that they
// confirm their own sign-in: ABCD-EFGH-IJKL, of 60 bits.
func (l *Loopback) Shown() string {
	text := base32.StdEncoding.EncodeToString(l.Challenge[:8])
	return text[:4] + "-" + text[4:8] + "-" + text[8:12]
}

// Loopback returns the command line that an attempt is of, nil of a browser's own.
func (s *SignIn) Loopback(cookie string) *Loopback {
	a := open(s.key, cookie, s.Now())
	if a == nil || a.loopback.Port == 0 {
		return nil
	}
	return &a.loopback
}

func (s *SignIn) sealing() (cipher.AEAD, error) {
	block, err := aes.NewCipher(sign([]byte(s.ClientSecret), []byte("spendgate hand-over 1\n"+s.ClientID)))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// HandOver returns the address to which a browser takes a code, with which the command line takes over
// the session with that token. The state is the challenge, which only the command line and the browser
// in which it began know.
func (s *SignIn) HandOver(l *Loopback, token string) (url string, err error) {
	sealed, err := s.sealing()
	if err != nil {
		return "", err
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.Now().Add(handOverFor).UnixMilli()))
	b = append(append(b, l.Challenge[:]...), token...)
	nonce := make([]byte, sealed.NonceSize())
	_, _ = rand.Read(nonce) // never fails: the runtime aborts without randomness
	code := encoding.EncodeToString(sealed.Seal(nonce, nonce, b, nil))
	return "http://127.0.0.1:" + strconv.Itoa(int(l.Port)) + "/?code=" + code + "&state=" + l.State(), nil
}

// TakeOver returns the token that a code hands over if the caller has its verifier; else, and for a
// code that is too old, ErrAttempt.
func (s *SignIn) TakeOver(code, verifier string) (token string, err error) {
	sealed, err := s.sealing()
	if err != nil {
		return "", err
	}
	b, err := encoding.DecodeString(code)
	if err != nil || len(b) < sealed.NonceSize() {
		return "", ErrAttempt
	}
	b, err = sealed.Open(nil, b[:sealed.NonceSize()], b[sealed.NonceSize():], nil)
	if err != nil || len(b) < 8+sha256.Size {
		return "", ErrAttempt
	}
	until, proof := time.UnixMilli(int64(binary.BigEndian.Uint64(b))), sha256.Sum256([]byte(verifier))
	if !s.Now().Before(until) || subtle.ConstantTimeCompare(b[8:8+sha256.Size], proof[:]) != 1 {
		return "", ErrAttempt
	}
	return string(b[8+sha256.Size:]), nil
}
