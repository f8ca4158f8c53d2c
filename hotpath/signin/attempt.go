package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// AttemptFor is how long a browser has from the first page of the provider to its last.
const AttemptFor = 10 * time.Minute

// attempt is the state that a browser must bring back. Its cookie binds it to the browser and is
// signed, so that nobody can extend its life or choose its content.
type attempt struct {
	begun, until           time.Time // by the store's clock, and by the clock of the node that made it
	state, nonce, verifier [32]byte
	loopback               Loopback // of a command line; zero of a browser's own
}

func newAttempt(now, begun time.Time) *attempt {
	a := &attempt{begun: begun, until: now.Add(AttemptFor)}
	for _, secret := range []*[32]byte{&a.state, &a.nonce, &a.verifier} {
		_, _ = rand.Read(secret[:]) // never fails: the runtime aborts without randomness
	}
	return a
}

var encoding = base64.RawURLEncoding

func text(secret [32]byte) string { return encoding.EncodeToString(secret[:]) }

// seal returns the attempt as its cookie has it.
func (a *attempt) seal(key []byte) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(a.until.UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, uint64(a.begun.UnixMilli()))
	b = append(append(append(b, a.state[:]...), a.nonce[:]...), a.verifier[:]...)
	b = append(binary.BigEndian.AppendUint16(b, a.loopback.Port), a.loopback.Challenge[:]...)
	return encoding.EncodeToString(append(b, sign(key, b)...))
}

const attemptSize = 8 + 8 + 3*32 + 2 + 32

// open reads a cookie; nil of one that is over, or was not made here.
func open(key []byte, cookie string, now time.Time) *attempt {
	b, err := encoding.DecodeString(cookie)
	if err != nil || len(b) != attemptSize+sha256.Size || !hmac.Equal(b[attemptSize:], sign(key, b[:attemptSize])) {
		return nil
	}
	a := &attempt{until: time.UnixMilli(int64(binary.BigEndian.Uint64(b))), begun: time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:])))}
	copy(a.state[:], b[16:])
	copy(a.nonce[:], b[48:])
	copy(a.verifier[:], b[80:])
	a.loopback.Port = binary.BigEndian.Uint16(b[112:])
	copy(a.loopback.Challenge[:], b[114:])
	if !now.Before(a.until) {
		return nil
	}
	return a
}

func sign(key, b []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(b) // to memory
	return mac.Sum(nil)
}

// is reports whether the text is the secret.
func is(got string, want [32]byte) bool {
	return subtle.ConstantTimeCompare([]byte(got), []byte(text(want))) == 1
}
