package tenon

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
)

// Secret says what of the tasks of a kind is encrypted.
type Secret int

const (
	NotSecret     Secret = iota
	SecretPayload        // payloads
	SecretAll            // also results, progress, and the values of steps
)

const (
	envelopeKey = "tenon:secret"
	keyBytes    = 32
	nonceBytes  = 12
)

var keyID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// SecretError: a value cannot be encrypted or decrypted here. The task fails and is retried: usually a key is missing.
type SecretError struct {
	reason string
}

func (e *SecretError) Error() string { return e.reason }

func secretError(format string, args ...any) error {
	return &SecretError{fmt.Sprintf(format, args...)}
}

// Keys are keys of 32 bytes by their ids. The first one encrypts, each decrypts what was encrypted with it.
type Keys struct {
	ids  []string
	keys map[string]cipher.AEAD
}

// ParseKeys reads "ID:BASE64 ID:BASE64", as an environment variable has them.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{keys: map[string]cipher.AEAD{}}
	for _, word := range strings.Fields(text) {
		id, encoded, _ := strings.Cut(word, ":")
		key, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case err != nil || !keyID.MatchString(id):
			return nil, errors.New("a key is not ID:BASE64, with an id of 1 to 100 of A-Z a-z 0-9 _ . -") // without its text
		case k.keys[id] != nil:
			return nil, fmt.Errorf("the key %q is given twice", id)
		case len(key) != keyBytes:
			return nil, fmt.Errorf("the key %q has %d bytes, not %d", id, len(key), keyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		if k.keys[id], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		k.ids = append(k.ids, id)
	}
	if len(k.ids) == 0 {
		return nil, errors.New("no keys were given")
	}
	return k, nil
}

var processKeys atomic.Pointer[Keys]

// SetKeys sets the keys of this process: producers encrypt with them, handlers decrypt.
func SetKeys(keys *Keys) {
	processKeys.Store(keys)
}

// Encrypt makes an envelope of a value. It opens for this kind only, and only as what it is: "payload", "result",
// "progress", or "step:" and the name of a step.
func (k *Keys) Encrypt(value any, kind, what string) (json.RawMessage, error) {
	text, err := encode(value)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return k.seal(text, kind, what, nonce)
}

// Decrypt returns the JSON in an envelope; what is not an envelope is returned as it is. The error is a [*SecretError].
func (k *Keys) Decrypt(value json.RawMessage, kind, what string) (json.RawMessage, error) {
	inner, ok := envelopeOf(value)
	if !ok {
		return value, nil
	}
	return k.open(inner, kind, what)
}

type sealed struct {
	Version int    `json:"v"`
	Key     string `json:"key"`
	Nonce   []byte `json:"nonce"`
	Text    []byte `json:"text"`
}

func (k *Keys) seal(text []byte, kind, what string, nonce []byte) (json.RawMessage, error) {
	id := k.ids[0]
	return encode(map[string]sealed{
		envelopeKey: {1, id, nonce, k.keys[id].Seal(nil, nonce, text, boundTo(kind, what))},
	})
}

func (k *Keys) open(inner json.RawMessage, kind, what string) (json.RawMessage, error) {
	var version struct {
		V json.RawMessage `json:"v"`
	}
	if json.Unmarshal(inner, &version) == nil && version.V != nil && string(version.V) != "1" {
		return nil, secretError("the %s of %s is encrypted in a version that this client does not know", what, kind)
	}
	var s sealed
	if err := json.Unmarshal(inner, &s); err != nil || s.Key == "" || len(s.Nonce) != nonceBytes || len(s.Text) < 16 {
		return nil, secretError("the %s of %s is not an envelope of v, key, nonce and text", what, kind)
	}
	key, ok := k.keys[s.Key]
	if !ok {
		return nil, secretError("the %s of %s is encrypted with the key '%s', which this process does not have; it has '%s'",
			what, kind, s.Key, strings.Join(k.ids, "', '"))
	}
	text, err := key.Open(nil, s.Nonce, s.Text, boundTo(kind, what))
	if err != nil {
		return nil, secretError("the %s of %s cannot be decrypted with the key '%s': it was encrypted with another key of that id, "+
			"for another kind or purpose, or it was changed", what, kind, s.Key)
	}
	return text, nil
}

// boundTo is the additional data of an envelope. No kind has a line feed.
func boundTo(kind, what string) []byte {
	return []byte(envelopeKey + ":1\n" + kind + "\n" + what)
}

func envelopeOf(value json.RawMessage) (inner json.RawMessage, ok bool) {
	var object map[string]json.RawMessage
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &object) != nil || len(object) != 1 {
		return nil, false
	}
	inner, ok = object[envelopeKey]
	return inner, ok
}

func isEnvelope(value json.RawMessage) bool {
	_, ok := envelopeOf(value)
	return ok
}

// seal encrypts JSON text with the keys of this process.
func seal(text []byte, kind, what string) ([]byte, error) {
	keys := processKeys.Load()
	if keys == nil {
		return nil, secretError("the %s of %s is to be encrypted, but there are no keys: tenon.SetKeys", what, kind)
	}
	return keys.Encrypt(json.RawMessage(text), kind, what)
}

// unseal decrypts JSON text with the keys of this process, if it is an envelope.
func unseal(text json.RawMessage, kind, what string) (json.RawMessage, error) {
	if !isEnvelope(text) {
		return text, nil
	}
	keys := processKeys.Load()
	if keys == nil {
		return nil, secretError("the %s of %s is encrypted, but there are no keys: tenon.SetKeys", what, kind)
	}
	return keys.Decrypt(text, kind, what)
}
