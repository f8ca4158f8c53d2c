package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
)

// secretPrefix begins a secret as it is shown; the rest is base64.
const secretPrefix = "whsec_"

// NewSecret makes the secret of a webhook: 32 random bytes.
func NewSecret() audit.Secret {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails: the runtime aborts without randomness
	return audit.Secret(secretPrefix + base64.StdEncoding.EncodeToString(secret[:]))
}

// sign returns the header webhook-signature: one signature per secret, separated by
// spaces.
func sign(secrets []audit.Secret, id string, at time.Time, body []byte) (string, error) {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(secret), secretPrefix))
		if err != nil {
			return "", fmt.Errorf("cannot decode a webhook's secret: it is not base64 behind %s", secretPrefix)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " "), nil
}
